#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
# terminal.py COLUMNS ROWS KEYS COMMAND...: runs the command on a terminal of that size, types KEYS when it has been
# silent for half a second, and prints what it shows (\r\n as \n). Its exit code; 124 after 20 s.
import fcntl, os, pty, select, struct, sys, termios, time

columns, rows, keys = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
pid, fd = pty.fork()
if pid == 0:
    # Not before the terminal has its size.
    os.read(0, 1)
    os.execvp(sys.argv[4], sys.argv[4:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
mode = termios.tcgetattr(fd)
mode[3] &= ~termios.ECHO
termios.tcsetattr(fd, termios.TCSANOW, mode)
os.write(fd, b"\n")
shown, end = b"", time.time() + 20
while time.time() < end:
    if select.select([fd], [], [], 0.5)[0]:
        try:
            got = os.read(fd, 65536)
        except OSError:
            got = b""
        if not got:
            break
        shown += got
    elif keys:
        os.write(fd, keys.encode())
        keys = ""
else:
    os.kill(pid, 9)
    sys.exit(124)
sys.stdout.buffer.write(shown.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
