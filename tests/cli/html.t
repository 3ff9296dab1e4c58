#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The format html: its size, that nothing in a capture can become HTML, and how a browser takes it.

. "$(dirname "$0")/lib.sh"

gen=${KVMFT_TOOLS:-$top/build/tests/tools}/gen
events=200000

ok "a capture is made" "$gen" --capture "$tmp/host" --events $events --cpus 4
run "$kvmft" merge --format html -o "$tmp/page.html" "$tmp/host"
status_is 0 "merge --format html"
events=$(sed -n 's/.*host: \([0-9]*\) events.*/\1/p' "$err")
size=$(wc -c <"$tmp/page.html" | tr -d ' ')
ok "at most 40 bytes an event ($((size / events)))" test "$size" -le $((events * 40))
ok "it is whole" sh -c "tail -n 1 '$tmp/page.html' | grep -q '</html>'"
is "$(grep -c 'https\?://' "$tmp/page.html")" 0 "it names no address"

# ---- hostile names ----

cp -r "$tmp/host" "$tmp/evil"
# </script><img src=x onerror=document.title=1> and a quote, as the capture escapes them
echo 'task tid=1000 comm=%3C/script%3E%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D1%3E"' >>"$tmp/evil/meta"
run "$kvmft" merge --format html -o "$tmp/evil.html" "$tmp/evil"
status_is 0 "a capture with a hostile name"
is "$(grep -c 'onerror' "$tmp/evil.html")" 0 "... which is nowhere in the page as text"
is "$(grep -c '</script>' "$tmp/evil.html")" "$(grep -c '</script>' "$tmp/page.html")" "... and ends no script"

# ---- in a browser ----

missing=
for tool in node chromium; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	skip "in a browser" "not installed:$missing"
	finish
fi
for page in page evil; do
	name=
	[ $page = page ] || name='</script><img src=x onerror=document.title=1>"'
	if timeout 100 node "$top/tests/html/page.js" "$tmp/$page.html" "$events" "$name" >"$tmp/$page.tap" 2>&1; then
		result 0 "$page.html: the browser test ends"
	else
		result 1 "$page.html: the browser test ends"
		sed 's/^/# /' "$tmp/$page.tap"
	fi
	grep '^# ' "$tmp/$page.tap"
	while read -r line; do
		case $line in
		"ok "*) result 0 "$page.html: ${line#* - }" ;;
		"not ok "*) result 1 "$page.html: ${line#* - }" ;;
		esac
	done <"$tmp/$page.tap"
done
finish
