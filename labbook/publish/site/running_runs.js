// Shows on the page of a run that goes on, and on the home page, what it has done so far. Only `labbook serve` sends this.
(() => {
  const EVERY_MS = 2000;
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const made = (tag, name) => Object.assign(document.createElement(tag), { className: name });

  /** Calls `show` with what is known of a run, until it has ended. */
  const follow = async (run, show) => {
    for (;;) {
      if (!document.hidden) {
        try {
          const answer = await fetch(`/_labbook/run/${run}.json`, { cache: "no-store" });
          if (!answer.ok) return;
          await show(await answer.json());
        } catch {
          // The server is stopped, or being started again.
        }
      }
      await wait(EVERY_MS);
    }
  };

  const summary = document.querySelector(".lb-summary");
  if (summary && summary.querySelector(".lb-running")) {
    const run = document.querySelector(".lb-bar__facts code").textContent;
    const box = made("section", "lb-live");
    const [title, facts, picture, output] = [made("p", "lb-live__title"), made("p", "lb-quiet"), made("img", ""), made("pre", "")];
    follow(run, async (now) => {
      title.textContent = now.title;
      facts.textContent = now.facts;
      const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 4;
      output.textContent = now.output;
      output.hidden = !now.output;
      if (now.drawn) {
        picture.src = `/_labbook/run/${run}.svg?${Date.now()}`;
        picture.alt = now.title;
        await picture.decode().catch(() => {});
      }
      picture.hidden = !now.drawn;
      if (!box.isConnected) {
        box.append(title, facts, picture, output);
        summary.after(box);
      }
      if (atEnd) output.scrollTop = output.scrollHeight;
    });
  }

  for (const place of document.querySelectorAll(".lb-now [data-run]")) {
    follow(place.dataset.run, (now) => { place.textContent = `${now.title} · ${now.facts}`; });
  }
})();
