#!/usr/bin/env bash
# First inputs for `sql_text`, from the statements of the tests: corpus/sql_text/, and its words: corpus/sql.dict.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p corpus/sql_text
# Records of the tests: a head line, the statement, perhaps "----" and rows; an empty line ends them.
awk -v dir=corpus/sql_text '
    function done() { if (text != "") { printf "%s", text > (dir "/seed-" ++n); close(dir "/seed-" n) } text = "" }
    /^$/ { done(); in_record = 0; next }
    /^#/ && !in_record { next }
    !in_record { in_record = 1; rows = 0; next }
    /^----$/ { rows = 1; next }
    !rows { text = text $0 "\n" }
    END { done() }' ../../crates/sql/tests/slt/*.slt
# Every word and operator that occurs in at least three statements.
cat corpus/sql_text/seed-* | grep -oE "[A-Za-z_]{2,24}|[-+*/<>=~!@#%^&|?:.]{2,4}" | tr '[:upper:]' '[:lower:]' |
    sort | uniq -c | awk '$1 >= 3 { gsub(/\\/, "\\\\", $2); print "\"" $2 "\"" }' >corpus/sql.dict
echo "$(find corpus/sql_text -name 'seed-*' | wc -l) statements, $(wc -l <corpus/sql.dict) words"
