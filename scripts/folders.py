#!/usr/bin/env python3
"""The order of the folders of crates/sql/src: a file names only what is in its own folder or in one before it.

Run in the repository's root; prints what is named against the order and fails if there is anything that REMAINING does not
have, or if REMAINING has something that is named no more. Unit tests may name anything. ARCHITECTURE.md says what the folders are.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path("crates/sql/src")

# What is nearer to the text of a statement comes first, who asks comes last.
ORDER = ["parse", "exec", "plan", "dml", "ddl", "access", "command", "session"]

# What needs the session is written as methods of it in the folder that it is about, so these name it and what it keeps.
OF_SESSION = {"dml", "ddl", "access", "command"}

# What goes against the order: (file, beginning of what it names) and why. This list is to get shorter.
REMAINING = {
    ("exec/direct/select.rs", "plan::planner::QueryPlan"): "direct execution is recognised in a planned query",
    ("exec/explain/convert.rs", "plan::planner::Instance"): "EXPLAIN shows the plan of one run",
    ("exec/once.rs", "plan::planner::"): "a WITH query that is computed once is planned by itself",
    ("exec/once.rs", "dml::WritePlan"): "a WITH query may write",
    ("plan/statement.rs", "dml::"): "a prepared statement has the plan of what it writes and locks in it",
    ("plan/statement.rs", "command::utility::fields"): "the columns of SHOW, which are by the names of settings",
}


def paths_of_use(text):
    """The paths of a use declaration, its groups taken apart."""
    found = re.match(r"^(.*?)\{(.*)\}$", text, re.S)
    if not found:
        return [text]
    before, inside = found.groups()
    parts, depth, part = [], 0, ""
    for sign in inside:
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += sign
    return [path for one in [*parts, part] if one for path in paths_of_use(before + one)]


def code_of(path):
    """A file without comments and without its unit tests."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.M)
    return re.split(r"^#\[cfg\(test\)\]\nmod tests \{", text, maxsplit=1, flags=re.M)[0]


def named(path):
    """What a file names of this crate, as paths from its root."""
    module = list(path.relative_to(ROOT).with_suffix("").parts)
    if module[-1] in ("mod", "lib"):
        module.pop()
    text = code_of(path)
    uses = re.findall(r"\buse\s+([^;]+);", text)
    rest = re.sub(r"\buse\s+[^;]+;", "", text)
    paths = [one for use in uses for one in paths_of_use(re.sub(r"\s+(?:as \w+)?", "", use))]
    paths += re.findall(r"\b(?:crate|super)(?:::\w+)+", rest)
    for one in paths:
        parts = one.split("::")
        if parts[0] == "crate":
            yield parts[1:]
        elif parts[0] == "super":
            base = list(module)
            while parts and parts[0] == "super":
                base, parts = base[:-1], parts[1:]
            yield base + parts


def main():
    folders = sorted(entry.name for entry in ROOT.iterdir() if entry.is_dir())
    if folders != sorted(ORDER):
        sys.exit(f"folders are {folders}, the order has {sorted(ORDER)}")
    place = {name: at for at, name in enumerate(ORDER)}
    wrong, seen, edges = [], set(), set()
    for path in sorted(ROOT.glob("*/**/*.rs")):
        file = path.relative_to(ROOT)
        own = file.parts[0]
        for parts in named(path):
            # What an execution comes to is the session's, whatever it is called by.
            if parts[:2] == ["wire", "Execution"]:
                parts = ["session", "execution", "Execution"]
            other = parts[0] if parts else ""
            if other not in place or other == own:
                continue
            edges.add((own, other))
            if place[other] < place[own] or (other == "session" and own in OF_SESSION):
                continue
            name = "::".join(parts)
            known = next((key for key in REMAINING if key[0] == str(file) and name.startswith(key[1])), None)
            if known:
                seen.add(known)
            else:
                wrong.append(f"{file} names {name}: {other} comes after {own}")
    wrong += [f"{file} does not name {name} any more: take it off the list" for file, name in REMAINING.keys() - seen]
    for line in wrong:
        print(line)
    print(f"{len(edges)} edges between {len(ORDER)} folders, {len(seen)} places against the order, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


main()
