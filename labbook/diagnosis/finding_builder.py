"""Builds findings: the place, the evidence with its numbers, causes and fixes in the order for this run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.diagnosis.catalogue.matcher import Match
from labbook.diagnosis.catalogue.message_values import describe_index, read_values, select_tensors
from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.renamed_names import ADDED, RENAMED, find_misspelling, find_rename, usual_imports
from labbook.diagnosis.catalogue.run_conditions import (
    OBSERVED,
    conditions_said,
    find_conditions,
    read_label_mark,
)
from labbook.diagnosis.catalogue.symptom_catalogue import LEFT_OUT, Catalogue
from labbook.diagnosis.families.family_tables import load_tables, title_of_family
from labbook.diagnosis.families.message_family import FamilyReading
from labbook.diagnosis.fingerprint import fingerprint_exception, fingerprint_fault
from labbook.diagnosis.program_traits import CODE, both_ways, conditions_of_page
from labbook.model.check import cases_of
from labbook.model.evidence import Evidence, ObservedException, OutputLine
from labbook.model.finding import Finding
from labbook.model.message import message as make_message
from labbook.model.run import CheckResult
from labbook.model.symptom import Symptom, Wording
from labbook.model.traceback_frames import innermost_user_frame
from labbook.store.text.sentences import Sentences, translate_check

_MOST_MESSAGE, _EARLY = 400, 10
_LAYER_CALLED = "Exception encountered when calling"
"""Begins the messages of Keras, before the message of the layer."""
_GRAPH_TRACED = "in user code:"
_OF_CODE = "review."
"""Begins the keys of what the rules of the review say."""
_CLASS = re.compile(r"^[\w.]*(?:Error|Exception): ")
_ENDING_SENTENCES = ("oom_kill", "time_limit", "lost_node", "batch_end", "reader_died", "memory")
_CHILD_DEATHS = ("dataloader_worker_died", "host_oom_killed", "illegal_instruction_or_segfault", "nccl_or_collective")
_WAITING = (
    *("diagnosis.waiting.reader", "diagnosis.waiting.collective", "diagnosis.waiting.lock"),
    *("diagnosis.waiting.worker", "diagnosis.waiting.input"),
)


def build_finding(
    match: Match, exception: ObservedException | None, line: OutputLine | None, evidence: Evidence, language: str
) -> Finding:
    """The finding of a page that matches an exception, a line of output, or an exit status if both are `None`.

    Of an exception and a line, the line gives values that the message of the exception lacks.
    """
    symptom = match.symptom
    wording = symptom.wording_in(language)
    whole = exception.message if exception else line.text if line else ""
    read = read_values(match, whole)
    if exception and line:
        read = {**read_values(match, line.text), **read}
    read.update(_package_of(read.get("module", "")))
    if (line_of_import := usual_imports().get(read.get("name", ""))) is not None:
        read["usual_import"] = line_of_import
    read.update(find_rename(whole, "\n".join(frame.source for frame in exception.frames[-2:]) if exception else ""))
    values = {**read_label_mark(read), **{k: str(v) for k, v in evidence.facts.items()}}
    values |= {**find_misspelling(whole), **_names_of(exception), **read}
    values |= describe_index(exception.tensors) if exception else {}
    named = (key.removeprefix(LEFT_OUT) for key in symptom.when)
    conditions = find_conditions(values, evidence, exception) | conditions_said(named, exception, line)
    conditions = conditions.union(conditions_of_page((key for key in symptom.when if CODE in key), (), evidence.code))
    message = first_message_line(whole)
    say = Sentences(language)
    sentences = _first_sentence(wording, values, evidence)
    if exception is not None:
        sentences.append(f"{exception.type}: {message}" if exception.type else message)
        sentences += [_tensor(tensor, say) for tensor in select_tensors(exception.tensors, symptom.family, whole)]
        sentences += _other_process_facts(symptom.family, evidence, say)
    elif line is not None:
        repeated = line.count > 1
        sentences.append(say.line("diagnosis.repeated", line=message, count=line.count) if repeated else message)
    else:
        sentences += _describe_ending(evidence, say)
    causes, fixes = order_advice(symptom, wording.why, wording.attempts, conditions)
    return Finding(
        symptom=symptom.id,
        family=symptom.family,
        class_=symptom.class_,
        # Where a release note names what is missing, no other reading is left.
        tier=symptom.tier if conditions & {ADDED, RENAMED} else max(symptom.tier, 4 - match.weight),
        severity=symptom.severity,
        title=wording.title,
        where=_locate(exception, line, evidence),
        evidence=tuple(sentences),
        causes=_fill_all(causes, values, evidence.framework),
        fixes=_fill_all(fixes, values, evidence.framework),
        fingerprint=fingerprint_exception(exception, evidence.framework)
        if exception
        else fingerprint_fault(symptom.id, evidence.framework),
        values=dict(match.values),
        message=message,
        exception=exception.type if exception else "",
    )


def _names_of(exception: ObservedException | None) -> dict[str, str]:
    """The name that does not exist and those that do, for sentences: names in a row."""
    rows = exception.names if exception else {}
    words = {key: one for key, one in rows.items() if one and not isinstance(one, bool)}
    return {key: one if isinstance(one, str) else ", ".join(map(str, one)) for key, one in words.items()}


def _package_of(module: str) -> dict[str, str]:
    """The package to install for a module; nothing for a module inside of a package, which may be there already."""
    return {"package": load_tables().packages.get(module, module)} if module.isidentifier() else {}


def build_family_finding(
    reading: FamilyReading, exception: ObservedException, evidence: Evidence, language: str
) -> Finding:
    """The finding of a family without a page."""
    return Finding(
        symptom="",
        family=reading.family,
        class_=reading.family,
        tier=reading.tier,
        severity="error",
        title=title_of_family(reading.family, language),
        where=locate_exception(exception),
        evidence=(reading.sentence[:_MOST_MESSAGE],),
        fingerprint=fingerprint_exception(exception, evidence.framework),
        message=first_message_line(exception.message) or reading.sentence[:_MOST_MESSAGE],
        exception=exception.type,
    )


def build_check_finding(check: CheckResult, catalogue: Catalogue, evidence: Evidence, language: str) -> Finding:
    """The finding of a row of the health checklist that failed or warned."""
    say = Sentences(language)
    is_specific = "detail" in check.run_messages
    check = translate_check(check, say)
    observed = check.observed
    if check.expected and not any(map(str.isalpha, observed)):
        observed = say.line("health.expected", observed=observed, expected=check.expected)
    symptom = catalogue.symptoms.get(check.id)
    values = {name: str(value) for name, value in {**evidence.facts, **check.where}.items()}
    key = check.observed_message.key if check.observed_message else ""
    conditions = find_conditions(values, evidence, None)
    if (step := check.where.get("step")) is not None:
        conditions |= both_ways([("at_once", step <= 1), ("early", step <= _EARLY)])
    sentences: list[str] = []
    causes: Sequence[str] = ()
    fixes: Sequence[str] = (check.detail,) if check.detail else ()
    title = check.title
    if symptom is not None:
        wording = symptom.wording_in(language)
        title = wording.title
        sentences = _first_sentence(wording, values, evidence)
        conditions = conditions.union(conditions_of_page(symptom.when, cases_of(check), evidence.code))
        causes, suggested = order_advice(symptom, wording.why, wording.attempts or tuple(fixes), conditions)
        # An advice with the values of the run takes the place of those of the page.
        fixes = fixes if is_specific else suggested
    evidence_of_check = [*sentences, observed, *check.evidence]
    if key.startswith(_OF_CODE):
        # A rule says what is wrong in that line; the page lists what may be wrong elsewhere.
        causes, evidence_of_check = [observed], [*sentences, *check.evidence]
    return Finding(
        symptom=check.id,
        family=check.family,
        class_=check.family,
        tier=check.tier,
        severity="error" if check.verdict == "fail" else "warning",
        title=title,
        where=_add_source_line(check.where, evidence),
        evidence=tuple(evidence_of_check),
        causes=_fill_all(causes, values, evidence.framework),
        fixes=_fill_all(fixes, values, evidence.framework),
        fingerprint=fingerprint_fault(check.id, str(check.where.get("module") or "")),
        follows_from=check.explained_by,
        message=check.observed,
    )


def order_advice(
    symptom: Symptom, causes: Sequence[str], fixes: Sequence[str], conditions: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Causes and fixes in the order of the page; those that a condition of this run suggests come first.

    Those that a condition rules out are removed.
    """
    met = [(key, numbers) for key, numbers in symptom.when.items() if key.removeprefix(LEFT_OUT) in conditions]
    ordered: list[list[str]] = []
    for place, items in enumerate((causes, fixes)):
        first = [n for key, numbers in met for n in numbers[place] if not key.startswith(LEFT_OUT)]
        ruled_out = {n for key, numbers in met for n in numbers[place] if key.startswith(LEFT_OUT)}
        # A case that was observed has its own cause and fix; the others of the page are those of other cases.
        own = [n for key, numbers in met for n in numbers[place] if key.startswith(OBSERVED)]
        chosen = dict.fromkeys(own or [*first, *range(1, len(items) + 1)])
        ordered.append([items[n - 1] for n in chosen if 0 < n <= len(items) and n not in ruled_out])
    return ordered[0], ordered[1]


def _first_sentence(wording: Wording, values: Mapping[str, str], evidence: Evidence) -> list[str]:
    """The first sentence of `says` whose values are all known, as a list of one or none."""
    sentences = (fill_slots(sentence, values, evidence.framework) for sentence in wording.says.splitlines())
    return [sentence for sentence in sentences if sentence][:1]


def _fill_all(sentences: Sequence[str], values: Mapping[str, str], framework: str) -> tuple[str, ...]:
    # A sentence with unknown values remains as on the page; one of the other framework alone becomes empty.
    filled = (fill_slots(sentence, values, framework) for sentence in sentences)
    found = (text if text is not None else sentence for text, sentence in zip(filled, sentences, strict=True))
    return tuple(text for text in found if text)


def locate_exception(exception: ObservedException) -> dict[str, Any]:
    """Where an exception comes from: the innermost line of the user's code, else of any code."""
    frame = innermost_user_frame(exception.frames) or next(reversed(exception.frames), None)
    place = {"after_step": exception.step, "rank": exception.rank, "thread": exception.thread}
    found: dict[str, Any] = {}
    if frame is not None:
        found = {"file": frame.file, "line": frame.line, "function": frame.function, "source": frame.source.strip()}
    return found | {name: value for name, value in place.items() if value not in (None, "")}


def _add_source_line(where: Mapping[str, Any], evidence: Evidence) -> dict[str, Any]:
    """The place of a check, with the source line where the traceback of an exception contains it."""
    if where.get("source") or not where.get("file"):
        return dict(where)
    line, file = where.get("line"), str(where["file"])
    frames = (frame for exception in evidence.exceptions for frame in exception.frames)
    same = (f for f in frames if f.line == line and (f.file == file or f.file.endswith("/" + file)))
    frame = next((frame for frame in same if frame.source.strip()), None)
    return {**where, "source": frame.source.strip()} if frame is not None else dict(where)


def first_message_line(message: str) -> str:
    """The first line of a message with words, shortened; the next where it only names the layer that was called.

    Where TensorFlow lists the frames of a graph, the message is in the last line.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip(" -=*")]
    if lines and lines[0] == _GRAPH_TRACED:
        return first_message_line(_CLASS.sub("", lines[-1]))
    line = next((line for line in lines if not line.startswith(_LAYER_CALLED)), lines[0] if lines else "")
    return line if len(line) <= _MOST_MESSAGE else line[: _MOST_MESSAGE - 3] + "..."


def _tensor(tensor: Mapping[str, Any], say: Sentences) -> str:
    line = [f"{tensor.get('name') or say.line('diagnosis.tensor')}: {tensor.get('shape')}"]
    line += [str(tensor[key]) for key in ("dtype", "device") if tensor.get(key)]
    if len(ends := list(tensor.get("range") or [])) == 2:
        line.append(say.line("diagnosis.tensor_range", low=ends[0], high=ends[1]))
    return " ".join(line)


def _locate(exception: ObservedException | None, line: OutputLine | None, evidence: Evidence) -> dict[str, Any]:
    if exception is not None:
        return locate_exception(exception)
    if line is not None:
        return {"rank": line.rank} if line.rank is not None else {}
    return dict(evidence.ending.facts.get("where") or {})


def _other_process_facts(family: str, evidence: Evidence, say: Sentences) -> list[str]:
    """Facts about the death of another process, for families that report one."""
    if family not in _CHILD_DEATHS:
        return []
    facts = evidence.ending.facts
    return [say(one) for one in (facts.get("oom_kill"), *(facts.get("children") or ())) if one]


def _describe_ending(evidence: Evidence, say: Sentences) -> list[str]:
    ending, facts = evidence.ending, evidence.ending.facts
    sentences = [say(one) for one in (*map(facts.get, _ENDING_SENTENCES), *(facts.get("children") or ())) if one]
    if facts.get("silent_s"):
        silent = make_message("diagnosis.silent", seconds=float(facts["silent_s"]))
        if (waiting := f"diagnosis.waiting.{facts.get('waiting')}") in _WAITING:
            silent = make_message("diagnosis.silent_and", silent=silent, waiting=make_message(waiting))
        sentences.append(say(silent))
    if facts.get("core_dump"):
        sentences.append(say.line("diagnosis.core_dump"))
    if ending.signal:
        sentences.append(say.line("diagnosis.ended_by", signal=ending.signal))
    elif ending.exit_code is not None:
        sentences.append(say.line("diagnosis.ended_with", code=ending.exit_code))
    return sentences
