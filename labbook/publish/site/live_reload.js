// Loads the page again when it, or data that it shows, was written since. Only `labbook serve` sends this.
"use strict";
(() => {
  const mine = () => [location.pathname, ...performance.getEntriesByType("resource")
    .filter((one) => one.initiatorType === "fetch" && new URL(one.name).origin === location.origin)
    .map((one) => new URL(one.name).pathname)
    .filter((path) => !path.startsWith("/_labbook/") && !path.startsWith("/search/"))];
  // Server and browser are one machine, but files may carry the time of another: none loads a page twice.
  const isNewer = async (path) => {
    const answer = await fetch(path, { method: "HEAD", cache: "no-store" });
    const written = answer.ok ? answer.headers.get("X-Written-Ms") : "0";
    const key = `labbook-written:${path}`;
    if (Number(written) <= performance.timeOrigin || sessionStorage.getItem(key) === written) return false;
    sessionStorage.setItem(key, written);
    return true;
  };
  const isWriting = () => {
    const one = document.activeElement;
    return Boolean(one && one.matches("input, textarea, select") && one.value);
  };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const follow = async () => {
    for (let seen = -1; ; ) {
      try {
        const answer = await fetch(`/_labbook/state?after=${seen}`, { cache: "no-store" });
        const state = await answer.json();
        if (state.built !== seen) {
          seen = state.built;
          const newer = await Promise.all([...new Set(mine())].map(isNewer));
          if (newer.some(Boolean)) {
            while (isWriting()) await wait(500);
            location.reload();
            return;
          }
        }
      } catch {
        await wait(2000);
      }
    }
  };
  follow();
})();
