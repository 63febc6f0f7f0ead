#!/usr/bin/env python3
"""Drives RocksDB 9.8.4 (package rocksdict) by a script on standard input.

  rocksdict_script.py rows  DIR             prints every live row, opened read-only: family, key, value, tab-separated
  rocksdict_script.py options DIR           opens the database with the options of its newest OPTIONS file; prints its families
  rocksdict_script.py write DIR [OPTION..]  runs the commands on standard input, one a line, fields tab-separated:
      create FAMILY | put FAMILY KEY VALUE | delete FAMILY KEY | delete_range FAMILY BEGIN END | flush FAMILY
      compact FAMILY
    and then leaves: by closing, or, with the option `unclean`, by ending the process at once

Options of `write`: format_version=N, compression=NAME, bloom=BITS, write_buffer_size=BYTES, unclean.
Keys and values are in hex. The order of rows is that of the families' names, then of RocksDB's iterator.
"""
import os
import sys

from rocksdict import AccessType, BlockBasedOptions, DBCompressionType, Options, Rdict


def options(settings):
    opts = Options(raw_mode=True)
    opts.create_if_missing(True)
    table = BlockBasedOptions()
    if "format_version" in settings:
        table.set_format_version(int(settings["format_version"]))
    if "bloom" in settings:
        table.set_bloom_filter(float(settings["bloom"]), False)
    opts.set_block_based_table_factory(table)
    if "compression" in settings:
        opts.set_compression_type(getattr(DBCompressionType, settings["compression"])())
    if "write_buffer_size" in settings:
        opts.set_write_buffer_size(int(settings["write_buffer_size"]))
    return opts


def families(path):
    return sorted(Rdict.list_cf(path)) if os.path.exists(os.path.join(path, "CURRENT")) else []


def opened(path, settings, access=None):
    names = families(path)
    extra = {name: options(settings) for name in names if name != "default"}
    arguments = {} if access is None else {"access_type": access}
    return names, Rdict(path, options=options(settings), column_families=extra or None, **arguments)


class Families:
    """Handles by name, each opened once: closing one flushes its family."""

    def __init__(self, db):
        self.db = db
        self.handles = {"default": db}

    def __getitem__(self, name):
        if name not in self.handles:
            self.handles[name] = self.db.get_column_family(name)
        return self.handles[name]

    def create(self, name, opts):
        self.handles[name] = self.db.create_column_family(name, opts)

    def close(self):
        for handle in self.handles.values():
            handle.close()


def rows(path):
    names, db = opened(path, {}, AccessType.read_only())
    handles = Families(db)
    out = []
    for name in names:
        for key, value in handles[name].items():
            out.append("%s\t%s\t%s" % (name, key.hex(), value.hex()))
    print("\n".join(out))
    handles.close()


def load_options(path):
    opts, extra = Options.load_latest(path)
    others = {name: family for name, family in extra.items() if name != "default"}
    db = Rdict(path, options=opts, column_families=others or None)
    db.close()
    print("\n".join(sorted({"default", *extra})))


def write(path, settings):
    _, db = opened(path, settings)
    handles = Families(db)
    for line in sys.stdin.read().splitlines():
        command, name, *fields = line.split("\t")
        fields = [bytes.fromhex(field) for field in fields]
        if command == "create":
            handles.create(name, options(settings))
        elif command == "put":
            handles[name].put(fields[0], fields[1])
        elif command == "delete":
            handles[name].delete(fields[0])
        elif command == "delete_range":
            handles[name].delete_range(fields[0], fields[1])
        elif command == "flush":
            handles[name].flush()
        elif command == "compact":
            handles[name].compact_range(None, None)
        else:
            sys.exit("unknown command")
    sys.stdout.flush()
    if "unclean" in settings:
        os._exit(0)
    handles.close()


def main():
    command, path, *rest = sys.argv[1:]
    settings = dict(part.partition("=")[::2] for part in rest)
    if command == "rows":
        rows(path)
    elif command == "options":
        load_options(path)
    elif command == "write":
        write(path, settings)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
