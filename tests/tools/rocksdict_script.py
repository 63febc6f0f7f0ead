#!/usr/bin/env python3
"""Drives RocksDB 9.8.4 (package rocksdict) by a script on standard input.

  rocksdict_script.py rows  DIR             prints every live row, opened read-only: family, key, value, tab-separated
  rocksdict_script.py options DIR           opens the database with the options of its newest OPTIONS file; prints its families
  rocksdict_script.py write DIR [OPTION..]  runs the commands on standard input, one a line, fields tab-separated:
      create FAMILY | put FAMILY KEY VALUE | entity FAMILY KEY [NAME VALUE].. | delete FAMILY KEY
      delete_range FAMILY BEGIN END | flush FAMILY | compact FAMILY | ingest FAMILY KEY VALUE [KEY VALUE..]
    and then leaves: by closing, or, with the option `unclean`, by ending the process at once

Options of `write`: format_version=N, compression=NAME, bloom=BITS, write_buffer_size=BYTES, unclean,
    index_type=NAME, metadata_block_size=BYTES, data_block_index=NAME, block_size=BYTES, checksum=NAME,
    max_dict_bytes=BYTES, zstd_max_train_bytes=BYTES, fixed_prefix=BYTES, blob=SMALLEST_BYTES, blob_compression=NAME.
Keys and values are in hex. The order of rows is that of the families' names, then of RocksDB's iterator.
"""
import os
import sys

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    ChecksumType,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    SliceTransform,
    SstFileWriter,
)


def options(settings):
    opts = Options(raw_mode=True)
    opts.create_if_missing(True)
    table = BlockBasedOptions()
    if "format_version" in settings:
        table.set_format_version(int(settings["format_version"]))
    if "bloom" in settings:
        table.set_bloom_filter(float(settings["bloom"]), False)
    if "index_type" in settings:
        table.set_index_type(getattr(BlockBasedIndexType, settings["index_type"])())
    if "metadata_block_size" in settings:
        table.set_metadata_block_size(int(settings["metadata_block_size"]))
    if "data_block_index" in settings:
        table.set_data_block_index_type(getattr(DataBlockIndexType, settings["data_block_index"])())
    if "block_size" in settings:
        table.set_block_size(int(settings["block_size"]))
    if "checksum" in settings:
        table.set_checksum_type(getattr(ChecksumType, settings["checksum"])())
    if "max_dict_bytes" in settings:
        opts.set_compression_options(-14, 32767, 0, int(settings["max_dict_bytes"]))
    if "zstd_max_train_bytes" in settings:
        opts.set_zstd_max_train_bytes(int(settings["zstd_max_train_bytes"]))
    if "fixed_prefix" in settings:
        opts.set_prefix_extractor(SliceTransform.create_fixed_prefix(int(settings["fixed_prefix"])))
    opts.set_block_based_table_factory(table)
    if "compression" in settings:
        opts.set_compression_type(getattr(DBCompressionType, settings["compression"])())
    if "write_buffer_size" in settings:
        opts.set_write_buffer_size(int(settings["write_buffer_size"]))
    if "blob" in settings:
        opts.set_enable_blob_files(True)
        opts.set_min_blob_size(int(settings["blob"]))
    if "blob_compression" in settings:
        opts.set_blob_compression_type(getattr(DBCompressionType, settings["blob_compression"])())
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
        elif command == "entity":
            handles[name].put_entity(fields[0], fields[1::2], fields[2::2])
        elif command == "delete":
            handles[name].delete(fields[0])
        elif command == "delete_range":
            handles[name].delete_range(fields[0], fields[1])
        elif command == "ingest":
            outside = os.path.join(path, "outside.tmp")
            writer = SstFileWriter(options(settings))
            writer.open(outside)
            for key, value in zip(fields[::2], fields[1::2]):
                writer[key] = value
            writer.finish()
            handles[name].ingest_external_file([outside])
            os.remove(outside)
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
