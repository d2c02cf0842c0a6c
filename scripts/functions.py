#!/usr/bin/env python3
"""docs/functions.md: PostgreSQL's functions by family, and which of them are answered here.

    scripts/functions.py PORT            compares the document with what a running server says; 1 if it is stale
    scripts/functions.py PORT --write    writes it anew
    scripts/functions.py PORT --write --sgml FILE    also takes names and families from PostgreSQL's func.sgml

A function is asked about by planning a call of it (PREPARE), for each of its forms in pg_proc; nothing is run. Needs psql.
"""

import argparse
import pathlib
import re
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "functions.md"

HEAD = """# Functions

PostgreSQL 15's functions, in the families of its manual ("Functions and Operators"), and whether they are answered here. *works*: every form of
the name is planned. *some forms*: those behind it are refused (`0A000`), the others work. *refused*: none works; a call is an error, never another
answer. *differs*: what is known to be otherwise in some cases; more of that is in [known-issues.md](known-issues.md) and [sql.md](sql.md). Constructs with a syntax of their own (`COALESCE`,
`GREATEST`, `CAST`, `XMLELEMENT` …) are not functions and not in it. Functions of extensions are in [sql.md](sql.md#extensions).

`scripts/functions.py` writes this file from a running server, and says whether it is stale.
"""

# Families of the manual, by the ids of its sections.
FAMILIES = {
    "functions-logical": None,
    "functions-comparison": "Comparison",
    "functions-math": "Mathematics",
    "functions-string": "Strings",
    "functions-binarystring": "Binary strings",
    "functions-bitstring": "Bit strings",
    "functions-matching": "Pattern matching",
    "functions-formatting": "Formatting",
    "functions-datetime": "Dates and times",
    "functions-enum": "Enumerated types",
    "functions-geometry": "Geometry",
    "functions-net": "Network addresses",
    "functions-textsearch": "Text search",
    "functions-uuid": "UUIDs",
    "functions-xml": "XML",
    "functions-json": "JSON",
    "functions-sequence": "Sequences",
    "functions-array": "Arrays",
    "functions-range": "Ranges",
    "functions-aggregate": "Aggregates",
    "functions-window": "Windows",
    "functions-srf": "Sets",
    "functions-info": "Information on the system",
    "functions-admin": "Administration",
    "functions-statistics": "Statistics",
}

# Calls that say more than the types of their arguments, in the place of those of all forms.
WRITTEN = {
    "row_to_json": ["row_to_json(ROW(1))", "row_to_json(ROW(1), true)"],
    "enum_first": ["enum_first(NULL::functions_probe)"],
    "enum_last": ["enum_last(NULL::functions_probe)"],
    "enum_range": ["enum_range(NULL::functions_probe)", "enum_range(NULL::functions_probe, NULL::functions_probe)"],
    "percentile_cont": [
        f"percentile_cont({at}) WITHIN GROUP (ORDER BY {of})"
        for at in ("0.5", "ARRAY[0.5, 0.7]")
        for of in ("1.5::double precision", "interval '1 day'")
    ],
    "percentile_disc": [f"percentile_disc({at}) WITHIN GROUP (ORDER BY 1)" for at in ("0.5", "ARRAY[0.5, 0.7]")],
    "mode": ["mode() WITHIN GROUP (ORDER BY 1)"],
    "count": ["count(*)", "count(1)"],
} | {name: [f"{name}(1) WITHIN GROUP (ORDER BY 1)"] for name in ("rank", "dense_rank", "percent_rank", "cume_dist")}

# What works, and gives something else in cases that are known.
DIFFERS = {
    "cbrt": "the last digit may be another one",
    "min": "of equal arrays the first, in PostgreSQL the last",
    "max": "of equal arrays the first, in PostgreSQL the last",
    "generate_series": "in FROM it ends with LIMIT, in PostgreSQL all rows are made first",
    "nextval": "values are given out one by one, whatever CACHE says",
} | {
    name: "regular expressions without back references, looking ahead and behind (refused)"
    for name in ("regexp_match", "regexp_matches", "regexp_replace", "regexp_like", "regexp_count", "regexp_instr")
}

# Those that want a list of columns behind them.
LISTED = ("json_to_record", "json_to_recordset", "jsonb_to_record", "jsonb_to_recordset")

# What stands in the place of types that have no values of their own.
POLYMORPHIC = {
    "any": "integer",
    "anyelement": "integer",
    "anynonarray": "integer",
    "anyarray": "integer[]",
    "anycompatible": "integer",
    "anycompatiblenonarray": "integer",
    "anycompatiblearray": "integer[]",
    "anyrange": "int4range",
    "anycompatiblerange": "int4range",
    "record": None,
    "anyenum": None,
}


def psql(port, script):
    """Runs a script, and gives its output and errors, line by line, as they come."""
    command = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-X", "-q", "-A", "-t", "-f", "-"]
    done = subprocess.run(
        command, input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False
    )
    return done.stdout.splitlines()


def forms(port):
    """Kind, whether it gives a set, and types of arguments of each function in pg_catalog, by name."""
    query = (
        "SELECT proname, prokind, proretset, provariadic <> 0, pronargdefaults, "
        "array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes::oid[]) AS a(t)), ','), "
        "format_type(prorettype, NULL) FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace ORDER BY 1, 6;"
    )
    found = {}
    for line in psql(port, query):
        parts = line.split("|")
        if len(parts) != 7:
            sys.exit(f"pg_proc: {line}")
        name, kind, is_set, variadic, _, args, result = parts
        types = args.split(",") if args else []
        found.setdefault(name, []).append((kind, is_set == "t", variadic == "t", types, result))
    return found


def call(name, form):
    """A statement that calls it; None: there is no way to write one."""
    kind, is_set, variadic, types, _ = form
    args = []
    for at, given in enumerate(types):
        plain = given.strip('"')
        if plain in POLYMORPHIC and POLYMORPHIC[plain] is None or plain in ("internal", "cstring", "anymultirange"):
            return None
        given = POLYMORPHIC.get(plain, given)
        if variadic and at == len(types) - 1 and given.endswith("[]"):
            given = given[:-2]
        args.append(f"NULL::{given}")
    written = f'"{name}"({", ".join(args)})'
    if kind == "w":
        return f"SELECT {written} OVER (ORDER BY 1)"
    if name in LISTED:
        return f"SELECT * FROM {written} AS f(a integer)"
    if is_set and kind == "f":
        return f"SELECT * FROM {written} AS f"
    return f"SELECT {written}"


def shown(name, form):
    written = form[4] if name in WRITTEN else f"({', '.join(form[3])})"
    return f"`{written}`"


def asked(port, names):
    """For each name its forms that work, and those that are refused."""
    known = forms(port)
    calls, lines = [], ["CREATE TYPE functions_probe AS ENUM ('a');", "\\set VERBOSITY sqlstate"]
    for name in names:
        over = [("a", False, False, [], text) for text in WRITTEN.get(name, [])]
        for form in over or known.get(name, []):
            text = f"SELECT {form[4]}" if over and form[0] != "w" else call(name, form)
            if text is None:
                continue
            lines += [f"\\echo @{len(calls)}", f"PREPARE p AS {text};", "DEALLOCATE ALL;"]
            calls.append((name, form))
    lines.append("DROP TYPE functions_probe;")
    states, at = {}, None
    for line in psql(port, "\n".join(lines)):
        if line.startswith("@"):
            at = int(line[1:])
            states[at] = None
        elif "ERROR" in line and at is not None and states[at] is None:
            states[at] = line.split()[-1]
    out = {name: ([], []) for name in names}
    for at, (name, form) in enumerate(calls):
        if at not in states:
            sys.exit(f"the server did not answer for {name}")
        out[name][states[at] is not None].append(form)
    return out


def families_of_manual(path, known):
    """Names of functions by family, in the manual's order."""
    found, family, seen, within = [], None, set(), False
    for line in pathlib.Path(path).read_text().splitlines():
        section = re.search(r'<sect1 id="([^"]+)"', line)
        if section:
            family = FAMILIES.get(section.group(1))
            if family:
                found.append((family, []))
        within |= 'role="func_signature"' in line or '<indexterm><primary>' in line and family == "Windows"
        if not family or not within:
            continue
        for name in re.findall(r"<function>([a-z_0-9]+)\b", line):
            if name in known and name not in seen:
                seen.add(name)
                found[-1][1].append(name)
        within &= "</para>" not in line
    return [(family, names) for family, names in found if names]


def families_of_document():
    found = []
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            found.append((line[3:], []))
        elif found and not line.startswith("| differs"):
            # One line for each kind of answer.
            found[-1][1].extend(re.findall(r"`([a-z_0-9]+)`", line.split("|", 2)[-1]))
    return found


def document(families, answers):
    out = [HEAD]
    for family, names in families:
        works, some, refused = [], [], []
        for name in sorted(names):
            fine, others = answers[name]
            if not others and fine:
                works.append(f"`{name}`")
            elif fine:
                missing = ", ".join(shown(name, form) for form in others)
                some.append(f"`{name}` (not {missing})")
            else:
                refused.append(f"`{name}`")
        out.append(f"## {family}\n\n| | |\n|---|---|")
        rows = [("works", works), ("some forms", some), ("refused", refused)]
        differs = [f"`{name}`: {DIFFERS[name]}" for name in sorted(names) if name in DIFFERS]
        out += [f"| {title} | {', '.join(row)} |" for title, row in rows if row]
        out += [f"| differs | {'; '.join(differs)} |"] if differs else []
        out.append("")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--sgml")
    given = parser.parse_args()
    families = families_of_manual(given.sgml, forms(given.port)) if given.sgml else families_of_document()
    if not families:
        sys.exit("no families: the document is empty")
    answers = asked(given.port, [name for _, names in families for name in names])
    text = document(families, answers)
    if given.write:
        DOCUMENT.write_text(text)
        return
    before = DOCUMENT.read_text()
    if before != text:
        stale = [line for line in text.splitlines() if line not in before.splitlines()]
        sys.exit("docs/functions.md is stale; these lines are new:\n" + "\n".join(stale))


main()
