"""Holds the outcomes of a suite against the list of its known failures.
Usage: suite_compare.py NAME KNOWN RESULTS…   or: suite_compare.py NAME - RESULTS… (counts only)
RESULTS are pytest's XML, the lines of JSON of django_suite/suite_runner.py, or those of `go test -json` (*.go.json). KNOWN has lines: `# cause`, tests under
it, and `passed N` for the tests that pass at least. Exit code 1: a test fails that is not in the list, one of the list
passes, or fewer pass than N (which a test that is skipped, or never run, comes to)."""
import json, re, sys
import xml.etree.ElementTree as xml

def pytest_results(file):
    for case in xml.parse(file).iter("testcase"):
        tags = {child.tag: child for child in case}
        name = re.sub(r"_postgresql\+psycopg_\d+_\d+", "", case.get("classname").split(".")[-1]) + "." + case.get("name")
        bad = tags.get("failure", tags.get("error"))
        if bad is not None: yield name, "failed", bad.get("message", "") + "\n" + "\n".join(re.findall(r"^E\s.*", bad.text or "", re.M))
        else: yield name, "skipped" if "skipped" in tags else "passed", ""

def django_results(file):
    for line in open(file):
        x = json.loads(line)
        if x["outcome"] != "left out": yield x["test"], x["outcome"], f"{x['why']}\n{x['sql'] or ''}"

def go_results(file):
    """Tests without tests within; a folder that the test makes for itself is not part of its name."""
    ends, said = {}, {}
    for line in open(file):
        if not line.startswith("{"): continue
        x = json.loads(line)
        test = x["Package"].rsplit("/", 1)[-1] + "." + re.sub(r"/tmp/[^']*/", "", x.get("Test", ""))
        if x["Action"] == "output": said.setdefault(test, []).append(x["Output"])
        elif x.get("Test") and x["Action"] in ("pass", "fail", "skip"): ends[test] = x["Action"]
    parents = {test[:at] for test in ends for at in range(len(test)) if test[at] == "/"}
    for test, end in ends.items():
        why = "".join(line for line in said.get(test, []) if not line.lstrip().startswith(("===", "---")))
        if test not in parents: yield test, {"pass": "passed", "fail": "failed", "skip": "skipped"}[end], why

def results(file):
    return (pytest_results if file.endswith(".xml") else go_results if file.endswith(".go.json") else django_results)(file)

def outcomes(files):
    """By test: its worst outcome, and why."""
    order, found = ["passed", "skipped", "failed"], {}
    for file in files:
        for test, outcome, why in results(file):
            if test not in found or order.index(outcome) > order.index(found[test][0]): found[test] = (outcome, why)
    return found

def known(file):
    cause, causes, least = None, {}, 0
    for line in map(str.strip, open(file)):
        if line.startswith("# "): cause = line[2:]
        elif line.startswith("passed "): least = int(line.split()[1])
        elif line: causes[line] = cause
    return causes, least

def main(name, list_file, *files):
    found = outcomes(files)
    count = lambda outcome: sum(o == outcome for o, _ in found.values())
    print(f"{name}: {count('passed')} pass, {count('failed')} fail, {count('skipped')} are left out by the suite itself")
    if list_file == "-": return 0
    causes, least = known(list_file)
    wrong = [f"FAIL {t}: {why[:1500]}" for t, (o, why) in found.items() if o == "failed" and t not in causes]
    wrong += [f"works by now, take it off the list: {t}" for t in causes if found.get(t, ("",))[0] == "passed"]
    if count("passed") < least: wrong.append(f"{count('passed')} tests pass, {least} did: some are skipped, or do not run")
    by_cause = {}
    for test, cause in causes.items():
        if found.get(test, ("",))[0] != "passed": by_cause[cause] = by_cause.get(cause, 0) + 1
    for cause, n in sorted(by_cause.items(), key=lambda x: -x[1]): print(f"known: {n} {cause}")
    print("\n".join(wrong))
    return bool(wrong)

if __name__ == "__main__": sys.exit(main(*sys.argv[1:]))
