#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Lane: reads
#
# kvmft help --json has all that --list-options has, and contrib/skill/SKILL.md is made from it.

. "$(dirname "$0")/lib.sh"

run "$kvmft" help nosuch --json
status_is 2 "help --json of an unknown command"
run "$kvmft" help --json
status_is 0 "help --json"
is "$(wc -l <"$out" | tr -d ' ')" 1 "... is one line"
cp "$out" "$tmp/all.json"
if ! command -v python3 >/dev/null; then
	skip "what it has" "python3 is not installed"
	finish
fi
cat >"$tmp/list.py" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert [e["status"] for e in d["exits"]] == [0, 1, 2, 3, 4]
for c in d["commands"]:
    for o in c["options"] + [o for o in d["common_options"] if o["name"] in c["common_options"]]:
        print("\t".join([c["name"], (o["name"] or "")[2:], (o["letter"] or "")[1:],
                         "" if (o["argument"] or "").startswith("[=") else o["argument"] or "", " ".join(o["words"])]))
END
python3 "$tmp/list.py" "$tmp/all.json" | LC_ALL=C sort >"$tmp/got"
"$kvmft" --list-options | cut -f 1 >"$tmp/commands"
while read -r cmd; do
	"$kvmft" --list-options "$cmd" | awk -F '\t' 'NF == 2 { print $1 }'
done <"$tmp/commands" >"$tmp/verbs"
cat "$tmp/commands" "$tmp/verbs" | while read -r cmd; do
	"$kvmft" --list-options "$cmd" | awk -F '\t' -v OFS='\t' 'NF > 2 && $2 != "help" && $2 != "version" { print $1, $2, $3, $4, $6 }'
done | LC_ALL=C sort >"$tmp/want"
ok "... has options" test "$(wc -l <"$tmp/want")" -gt 200
ok "... all of them, with their arguments and words" diff "$tmp/want" "$tmp/got"
run "$kvmft" help report --json
is "$(python3 -c 'import json, sys; print([c["name"] for c in json.load(sys.stdin)["commands"]])' <"$out")" "['report']" \
	"... of one command"
run "$kvmft" help qemu set --json
is "$(python3 -c 'import json, sys; print([c["name"] for c in json.load(sys.stdin)["commands"]])' <"$out")" "['qemu set']" \
	"... of one of a group"
python3 "$top/contrib/skill/generate" <"$tmp/all.json" >"$tmp/SKILL.md"
ok "contrib/skill/SKILL.md is of these commands: make skill" diff "$top/contrib/skill/SKILL.md" "$tmp/SKILL.md"
is "$(awk 'length > 120' "$tmp/SKILL.md")" "" "... in 120 columns"
if [ -c /dev/full ]; then
	"$kvmft" help --json >/dev/full 2>"$err"
	is "$?" 1 "to a full device exits 1"
fi
finish
