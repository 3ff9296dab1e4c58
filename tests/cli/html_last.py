# SPDX-License-Identifier: GPL-2.0-or-later
"""The thread of the last event on a page: html_last.py PAGE. What records are is in src/output/html.c."""
import base64
import re
import sys

VALUES = {3: 6, 4: 5, 5: 5, 6: 2, 7: 1, 8: 1, 9: 1, 10: 1, 11: 2}  # of records without a length

data = base64.b64decode(re.search(r'id="data">([^<]*)<', open(sys.argv[1], encoding="utf-8").read())[1])
at, types, whos, last = 0, [], [], None


def number():
    global at
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value


while at < len(data):
    tag = number()
    if tag == 1:
        length = number()
        at += length
    elif tag == 2:
        number(), number()
        types.append(number())
        for _ in range(2 * types[-1]):
            number()
    elif tag >= 16:
        number()
        last = number()
        for _ in range(types[tag - 16]):
            number()
    else:
        values = [number() for _ in range(VALUES[tag])]
        if tag == 3:
            whos.append(values)
print(whos[last][4] >> 1)  # zigzag
