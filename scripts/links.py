#!/usr/bin/env python3
"""Relative links of the documents: that what they lead to is there, and the heading that they name.

Run in the repository's root; prints what leads nowhere and fails if there is anything.
"""

import pathlib
import re
import sys

LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def prose(text):
    """The text without code, in which brackets are no links."""
    blank = lambda m: re.sub(r"[^\n]", "x", m.group(0))
    text = re.sub(r"^```.*?^```", blank, text, flags=re.M | re.S)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", blank, text, flags=re.S)


def anchors(path):
    """Names of the headings, as the forges make them."""
    seen = set()
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#+\s+(.*?)\s*$", text, flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (name if number == 0 else f"{name}-{number}") in seen:
            number += 1
        seen.add(name if number == 0 else f"{name}-{number}")
    return seen | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def main():
    root = pathlib.Path(".")
    documents = sorted(root.glob("*.md")) + sorted(root.glob("docs/**/*.md"))
    wrong = checked = 0
    for document in documents:
        text = prose(document.read_text(encoding="utf-8"))
        for match in LINK.finditer(text):
            target, _, anchor = match.group(1).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            checked += 1
            path = document.parent / target if target else document
            missing = not path.exists()
            if not missing and anchor and path.suffix == ".md":
                missing = anchor not in anchors(path)
            if missing:
                line = text.count("\n", 0, match.start()) + 1
                print(f"{document}:{line}: {match.group(1)} leads nowhere")
                wrong += 1
    print(f"{checked} links in {len(documents)} documents, {wrong} lead nowhere")
    return 1 if wrong or not checked else 0


sys.exit(main())
