# SPDX-License-Identifier: GPL-2.0-only
"""Promises about tables in images: Parquet by DuckDB, CSV by pandas.

`scripts/python arrow` runs tests/arrow.py, the same by pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import pytest
from conftest import fsck_partitioned

from tane import RawFile

ROWS = 200_000
# One column of numbers, and one that is by far the larger part of the file.
TABLE = f"""
    SELECT i AS number, i % 7 AS week, md5(i::VARCHAR) || md5((-i)::VARCHAR) AS text
    FROM range({ROWS}) AS rows(i)
"""


def connect(url: str, **options: Any) -> Any:
    fs, _ = fsspec.url_to_fs(url, **options)
    # Its threads share a file's position: one moves it before another has read there.
    # DuckDB 2.0.0 does so on the host's files as well.
    database = duckdb.connect(config={"threads": 1, "async_threads": 0})
    database.register_filesystem(fs)
    return database


@pytest.fixture
def table(partitioned: Path) -> Iterator[str]:
    """A Parquet file in an image, which DuckDB has put there."""
    url = f"tane://{partitioned}@2:/lake/table.parquet"
    fs, _ = fsspec.url_to_fs(url, writable=True)
    fs.makedirs("/lake")
    with connect(url, writable=True) as database:
        database.execute(f"COPY ({TABLE}) TO '{url}' (ROW_GROUP_SIZE 50000)")
    fs.close()
    fsck_partitioned(partitioned)
    yield url
    fsspec.url_to_fs(url)[0].close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a file in an image brought, from now on."""
    sizes: list[int] = []
    readinto = RawFile.readinto

    def counted(self: RawFile, buffer: Any) -> int:
        sizes.append(readinto(self, buffer))
        return sizes[-1]

    monkeypatch.setattr(RawFile, "readinto", counted)
    return sizes


def test_a_parquet_file_comes_back_as_it_was_written(table: str) -> None:
    with connect(table) as database:
        differ = f"({TABLE}) EXCEPT (SELECT number, week, text FROM '{table}')"
        assert database.execute(differ).fetchall() == []
        count = f"SELECT count(*), sum(number) FROM '{table}'"
        assert database.execute(count).fetchone() == (ROWS, ROWS * (ROWS - 1) // 2)


def test_one_column_is_read_without_the_others(table: str, read: list[int]) -> None:
    fs, path = fsspec.url_to_fs(table)
    with connect(table) as database:
        week = f"SELECT sum(week) FROM '{table}'"
        assert database.execute(week).fetchone() == (sum(i % 7 for i in range(ROWS)),)
    assert 0 < sum(read) < fs.size(path) // 4


def test_a_pattern_means_the_files_that_fit_it(table: str) -> None:
    fs, path = fsspec.url_to_fs(table)
    assert fs.glob("/lake/*.parquet") == [path]
    with connect(table) as database:
        pattern = table.replace("table.parquet", "*.parquet")
        found = database.execute(f"SELECT count(*) FROM read_parquet('{pattern}')")
        assert found.fetchone() == (ROWS,)


def test_pandas_writes_and_reads_csv_in_a_partition(partitioned: Path) -> None:
    url = f"tane://{partitioned}@2:/new.csv"
    frame = pd.DataFrame({"x": range(1000), "name": [f"n{i}" for i in range(1000)]})
    frame.to_csv(url, index=False, storage_options={"writable": True})
    fsspec.url_to_fs(url, writable=True)[0].close()
    fsck_partitioned(partitioned)
    assert pd.read_csv(url).equals(frame)
    assert pd.read_csv(url, usecols=["x"], nrows=3)["x"].tolist() == [0, 1, 2]
