"""A store in a directory of this machine: `rocksdb:///var/lib/windows`, on RocksDB. One process at a time."""

from stores.rocksdb.store import RocksDBStore

__all__ = ["RocksDBStore"]
