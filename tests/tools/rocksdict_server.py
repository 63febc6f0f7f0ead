#!/usr/bin/env python3
"""RocksDB 9.8.4 (package rocksdict) and the independent reader, many times in one process.

Reads commands from standard input, one a line, fields separated by tabs, keys and values in hex:

  open DIR [NAME=VALUE..]   opens or creates a database; a setting replaces every option of that name in RocksDB's OPTIONS
  put KEY VALUE | delete KEY | delete_range BEGIN END | flush | compact
  rows                      the live rows, each of which a get and a seek must find too
  leave                     ends as a process that dies: what is in the WAL alone stays there
  close                     ends as a program should
  check DIR TEXT            verifies every byte by the independent reader, which must say TEXT of some table
  end                       asks for the answer to what came since the last `end`

An answer is the rows asked for, one a line, and a line `.`; or, after a command that failed, a line `! MESSAGE` and a line `.`.
"""
import glob
import os
import re
import shutil
import sys
import tempfile

import rocksdb_dump
from rocksdict import BottommostLevelCompaction, CompactOptions, Options, Rdict


def plain():
    opts = Options(raw_mode=True)
    opts.create_if_missing(True)
    return opts


def replaced(text, name, value):
    """OPTIONS with another value of an option: a line of its own, or parts of lines, or a line that is new."""
    for pattern in (r"(?m)^  %s=.*$", r"\b%s=[^;}\n]*"):
        setting = "%s=%s" % (name, value)
        out, found = re.subn(pattern % re.escape(name), lambda match: " " * (match.group()[0] == " ") * 2 + setting, text)
        if found:
            return out
    head = '[CFOptions "default"]\n'
    return text.replace(head, head + "  %s\n" % setting)


def copied(path, to):
    """Copies a database that is open, whose files may go while they are copied."""
    for attempt in range(50):
        try:
            shutil.copytree(path, to, ignore=shutil.ignore_patterns("LOCK", "LOG*"))
            return
        except shutil.Error:
            shutil.rmtree(to)
    raise ValueError("files come and go")


class Server:
    def __init__(self, scratch):
        self.scratch = scratch
        self.db = self.path = None
        self.out = []
        template = os.path.join(scratch, "template")
        Rdict(template, options=plain()).close()
        with open(glob.glob(os.path.join(template, "OPTIONS-*"))[0]) as file:
            self.template = file.read()

    def options(self, settings):
        text = self.template
        for name, value in settings.items():
            text = replaced(text, name, value)
        place = os.path.join(self.scratch, "options")
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place)
        with open(os.path.join(place, "OPTIONS-000007"), "w") as file:
            file.write(text)
        return Options.load_latest(place)[1]["default"]

    def run(self, command, fields):
        if command == "open":
            self.path = fields[0]
            settings = {"disable_auto_compactions": "true"}
            settings.update(field.split("=", 1) for field in fields[1:])
            families = {"default": self.options(settings)}
            self.db = Rdict(self.path, options=plain(), column_families=families)
        elif command == "put":
            self.db[bytes.fromhex(fields[0])] = bytes.fromhex(fields[1])
        elif command == "delete":
            del self.db[bytes.fromhex(fields[0])]
        elif command == "delete_range":
            self.db.delete_range(*map(bytes.fromhex, fields))
        elif command == "flush":
            self.db.flush()
        elif command == "compact":
            forced = CompactOptions()
            forced.set_bottommost_level_compaction(BottommostLevelCompaction.force())
            self.db.compact_range(None, None, forced)
        elif command == "rows":
            found = list(self.db.items())
            walk = self.db.iter()
            for key, value in found:
                walk.seek(key)
                if self.db.get(key) != value or not walk.valid() or walk.key() != key:
                    raise ValueError("a row that only a walk finds")
            self.out += ["%s\t%s" % (key.hex(), value.hex()) for key, value in found]
        elif command == "leave":
            left = self.path + ".left"
            copied(self.path, left)
            self.shut()
            shutil.rmtree(self.path)
            os.rename(left, self.path)
        elif command == "close":
            self.shut()
        elif command == "check":
            said = []
            problems = rocksdb_dump.Db(fields[0]).check(said.append)
            if not any(fields[1] in line for line in said):
                raise ValueError("no table of which the reader says %s" % fields[1])
            if problems:
                raise ValueError("%d problems: %s" % (problems, [line for line in said if "PROBLEM" in line]))
        else:
            raise ValueError("unknown command " + command)

    def shut(self):
        if self.db is not None:
            self.db.close()
        self.db = None

    def answer(self, lines):
        self.out = []
        try:
            for line in lines:
                command, *fields = line.split("\t")
                self.run(command, fields)
        except Exception as error:  # noqa: whatever it is, the other side shows it
            self.shut()
            return ["! %s" % " ".join(str(error).split())]
        return self.out


def main():
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(scratch)
        lines = []
        for line in sys.stdin:
            line = line.rstrip("\n")
            if line != "end":
                lines.append(line)
                continue
            print("\n".join(server.answer(lines) + ["."]), flush=True)
            lines = []


if __name__ == "__main__":
    main()
