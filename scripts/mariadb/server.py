"""A MariaDB server on a private socket, with InnoDB or MyRocks set up as Siltstone's engines are in the laboratory."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
PACKAGES = ["mariadb-server", "mariadb-client", "mariadb-plugin-rocksdb", "sysbench"]
LOG_BYTES = 2 << 30
# A server that has settled has no more dirty pages than this, and its process reads and writes no more than this in a second.
FEW_PAGES, FEW_BYTES = 16, MIB
# It must have settled within so many seconds.
MOST_SECONDS = 3600

# Of what the operating system tells of a process, what only grows.
GROWING = [
    "cpu_s",
    "user_cpu_s",
    "system_cpu_s",
    "voluntary_context_switches",
    "involuntary_context_switches",
    "major_page_faults",
    "read_syscalls",
    "write_syscalls",
]
# Of what the server counts, what its engines do.
COUNTED = ("Innodb_", "Rocksdb_")


def install():
    """Installs what is missing. The service that Debian's package starts is stopped: it has nothing to do with this."""
    if all(shutil.which(tool) for tool in ("mariadbd", "sysbench")) and list(Path("/usr/lib").glob("**/ha_rocksdb.so")):
        return
    subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["service", "mariadb", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def version():
    return subprocess.run(["mariadbd", "--version"], capture_output=True, text=True).stdout.strip()


def innodb_settings(memory_mb, io_capacity):
    """Direct I/O, a sync of the log a second, doublewrite, changes of all kinds buffered."""
    chunk = 128 if memory_mb % 128 == 0 else 16
    return [
        f"innodb-buffer-pool-size={memory_mb}M",
        f"innodb-buffer-pool-chunk-size={chunk}M",
        f"innodb-log-file-size={LOG_BYTES}",
        "innodb-log-file-buffering=ON",
        "innodb-change-buffering=all",
        "innodb-flush-method=O_DIRECT",
        "innodb-flush-log-at-trx-commit=2",
        f"innodb-io-capacity={io_capacity}",
        f"innodb-io-capacity-max={2 * io_capacity}",
        "innodb-buffer-pool-dump-at-shutdown=OFF",
        "innodb-buffer-pool-load-at-startup=OFF",
        # The device is to be an SSD, as for our B-tree; MariaDB asks the kernel, which takes a virtual disk for one that rotates.
        "innodb-flush-neighbors=0",
    ]


def myrocks_settings(memory_mb, is_compressed):
    """Direct I/O, a sync of the WAL a second; as in Siltstone two memtables take a third of the memory, the rest is for blocks, and tables and levels are to write buffers as by RocksDB's defaults.

    Tables have filters at the bottom, too, which Siltstone's have not: an INSERT asks whether its primary key is there, and without them it reads a block for that behind compactions' reads.
    """
    buffer = memory_mb * MIB // 6
    codec = "kLZ4Compression" if is_compressed else "kNoCompression"
    family = ";".join(
        [
            f"write_buffer_size={buffer}",
            "max_write_buffer_number=2",
            f"target_file_size_base={buffer}",
            f"max_bytes_for_level_base={4 * buffer}",
            "level_compaction_dynamic_level_bytes=true",
            f"compression={codec}",
            f"bottommost_compression={codec}",
            "block_based_table_factory={cache_index_and_filter_blocks=1;filter_policy=bloomfilter:10:false;whole_key_filtering=1}",
        ]
    )
    return [
        "plugin-load-add=ha_rocksdb.so",
        "plugin-maturity=unknown",
        "innodb-buffer-pool-size=16M",
        "innodb-buffer-pool-chunk-size=2M",
        f"rocksdb-block-cache-size={memory_mb * MIB - 2 * buffer}",
        "rocksdb-use-direct-reads=ON",
        "rocksdb-use-direct-io-for-flush-and-compaction=ON",
        "rocksdb-flush-log-at-trx-commit=2",
        "rocksdb-max-background-jobs=2",
        f"rocksdb-default-cf-options={family}",
    ]


def blackhole_settings():
    """Tables that take rows and keep none: what is left is SQL."""
    return ["plugin-load-add=ha_blackhole.so", "innodb-buffer-pool-size=16M", "innodb-buffer-pool-chunk-size=2M"]


class Server:
    """Runs until `stop`, or until the program ends. `limit` puts a command on the limited device."""

    def __init__(self, engine, directory, settings, limit):
        self.engine, self.process, self.pid = engine, None, None
        directory = Path(directory).resolve()
        self.data, self.loaded, self.log_file = (directory / name for name in ("mariadb", "mariadb.loaded", "mariadbd.log"))
        # The name of a socket must be short.
        self.private = Path(tempfile.mkdtemp(prefix="siltstone-"))
        self.socket = str(self.private / "socket")
        atexit.register(self.end)
        self.remove()
        self.log_file.unlink(missing_ok=True)
        self.data.mkdir(parents=True)
        common = ["--no-defaults", f"--datadir={self.data}", "--user=root"]
        install = ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        settings = [
            "skip-networking",
            "skip-log-bin",
            "transaction-isolation=READ-COMMITTED",
            "max-prepared-stmt-count=1000000",
            f"default-storage-engine={engine}",
            f"socket={self.socket}",
            f"pid-file={self.private}/pid",
            *settings,
        ]
        self.command = limit(["mariadbd", *common, *(f"--{setting}" for setting in settings)])
        self.start()
        self.query("create database bench")

    def start(self):
        with self.log_file.open("a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        while subprocess.run([*self.client(), "-e", "select 1"], capture_output=True).returncode != 0:
            if self.process.poll() is not None:
                sys.exit(f"mariadbd ended; see {self.log_file}")
            time.sleep(0.1)
        self.pid = int((self.private / "pid").read_text())

    def client(self):
        return ["mariadb", "--no-defaults", f"--socket={self.socket}", "-uroot", "--batch", "--skip-column-names"]

    def query(self, text):
        return subprocess.run([*self.client(), "-e", text], check=True, capture_output=True, text=True).stdout

    def status(self):
        rows = self.query("show global status").splitlines()
        return {name: int(value) for name, value in (row.split("\t") for row in rows) if value.isdigit()}

    def figures(self):
        """What the server's process has read, written and taken of the processor so far."""
        fields = dict(line.split(": ") for line in Path(f"/proc/{self.pid}/io").read_text().splitlines())
        stat = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        user, system = (int(ticks) / 100 for ticks in stat[11:13])
        resident = next(line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
        tasks = [text for text in map(read_if_there, Path(f"/proc/{self.pid}/task").glob("*/status")) if text]
        switches = lambda kind: sum(int(re.search(rf"^{kind}_ctxt_switches:\s*(\d+)", task, re.MULTILINE).group(1)) for task in tasks)
        return {
            "counters": {name: count for name, count in self.status().items() if name.startswith(COUNTED)},
            "voluntary_context_switches": switches("voluntary"),
            "involuntary_context_switches": switches("nonvoluntary"),
            "major_page_faults": int(stat[9]),
            "read_syscalls": int(fields["syscr"]),
            "write_syscalls": int(fields["syscw"]),
            "read": int(fields["read_bytes"]),
            "written": int(fields["write_bytes"]),
            "cpu_s": user + system,
            "user_cpu_s": user,
            "system_cpu_s": system,
            "rss_mb": int(resident.split()[1]) * 1024 / 1e6,
        }

    def space(self):
        """Bytes of all files but logs."""
        is_log = lambda file: file.name.startswith("ib_logfile") or file.suffix == ".log"
        return sum(file.stat().st_blocks * 512 for file in self.data.rglob("*") if file.is_file() and not is_log(file))

    def settle(self):
        """Flushes and waits, as with Siltstone's engines: until InnoDB has written all pages, and until MyRocks has nothing in memtables and in level 0, and no flush and no compaction to do."""
        if self.engine == "innodb":
            usual = self.query("select @@global.innodb_max_dirty_pages_pct").strip()
            self.query("set global innodb_max_dirty_pages_pct = 0")
            self.wait_for(lambda: self.status()["Innodb_buffer_pool_pages_dirty"] <= FEW_PAGES)
            self.query(f"set global innodb_max_dirty_pages_pct = {usual}")
        else:
            due = "select sum(value) from information_schema.rocksdb_cfstats where stat_type in ('COMPACTION_PENDING', 'MEM_TABLE_FLUSH_PENDING')"
            # Level 0 is left alone while it is compacted already.
            for what in ("memtable", "memtable_and_lzero"):
                self.query(f"set global rocksdb_force_flush_{what}_now = 1")
                self.wait_for(lambda: int(self.query(due)) == 0)

    def wait_for(self, is_done):
        """Waits until it is done, and the server neither reads nor writes."""
        last = time.monotonic() + MOST_SECONDS
        before = self.figures()
        while time.monotonic() < last:
            time.sleep(1)
            now = self.figures()
            if is_done() and now["read"] - before["read"] + now["written"] - before["written"] <= FEW_BYTES:
                return
            before = now
        sys.exit(f"MariaDB has not settled in {MOST_SECONDS} s")

    def keep(self):
        """Starts anew, and keeps a copy of the database as it is now."""
        self.shut_down()
        copy(self.data, self.loaded)
        self.start()

    def restore(self):
        """Starts anew with the copy that was kept."""
        self.shut_down()
        copy(self.loaded, self.data)
        self.start()

    def shut_down(self):
        subprocess.run(["mariadb-admin", "--no-defaults", f"--socket={self.socket}", "-uroot", "shutdown"], check=True)
        self.process.wait()
        self.pid = None

    def remove(self):
        for directory in (self.data, self.loaded):
            shutil.rmtree(directory, ignore_errors=True)

    def stop(self):
        self.shut_down()
        self.remove()

    def end(self):
        """Ends the process, if it is still there. That of the server is a child of the one that limits it."""
        if self.process is not None and self.process.poll() is None:
            if self.pid is None:
                self.process.terminate()
            else:
                os.kill(self.pid, signal.SIGTERM)
            self.process.wait()
        shutil.rmtree(self.private, ignore_errors=True)


def read_if_there(file):
    """The text of a file that may be gone by now, as those of threads are."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None


def copy(directory, to):
    """In the place of what is there; nothing of it is left to be written behind the server's back."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", directory, to], check=True)
    subprocess.run(["sync", "-f", to], check=True)
