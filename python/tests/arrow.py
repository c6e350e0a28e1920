# SPDX-License-Identifier: GPL-2.0-only
"""Promises about Parquet in images, by pyarrow, for pandas and by itself.

Not among the tests of every run: pyarrow is large, and under the Apache licence
only. `scripts/python arrow` gets it and runs these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from conftest import fsck_partitioned
from test_parquet import read as read

ROWS = 100_000


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "number": range(ROWS),
            "year": [2000 + i % 3 for i in range(ROWS)],
            "text": [f"{i * 7919 % 1_000_003:040d}{i:020x}" for i in range(ROWS)],
        }
    )


@pytest.fixture
def table(partitioned: Path) -> Iterator[str]:
    """A Parquet file in an image, which pandas has put there."""
    url = f"tane://{partitioned}@2:/table.parquet"
    options = {"writable": True}
    frame().to_parquet(url, storage_options=options, row_group_size=20_000)
    fsspec.url_to_fs(url, **options)[0].close()
    fsck_partitioned(partitioned)
    yield url
    fsspec.url_to_fs(url)[0].close()


def test_pandas_gets_back_what_it_wrote(table: str) -> None:
    pd.testing.assert_frame_equal(pd.read_parquet(table), frame())


def test_pandas_reads_one_column_without_the_others(
    table: str, read: list[int]
) -> None:
    fs, path = fsspec.url_to_fs(table)
    found = pd.read_parquet(table, columns=["year"])
    assert found["year"].tolist() == frame()["year"].tolist()
    assert 0 < sum(read) < fs.size(path) // 4


def test_a_dataset_in_directories_is_written_filtered_and_projected(
    partitioned: Path,
) -> None:
    url = f"tane://{partitioned}@2:/lake"
    fs, path = fsspec.url_to_fs(url, writable=True)
    data = pa.Table.from_pandas(frame())
    parts = ds.partitioning(pa.schema([("year", pa.int64())]), flavor="hive")
    how: Any = {"format": "parquet", "partitioning": parts}
    ds.write_dataset(data, path, filesystem=fs, **how)
    fs.close()
    fsck_partitioned(partitioned)
    fs, path = fsspec.url_to_fs(url)
    assert {name.rpartition("/")[2] for name in fs.ls(path, detail=False)} == {
        f"year={year}" for year in (2000, 2001, 2002)
    }
    found = ds.dataset(path, filesystem=fs, **how).to_table(
        columns=["number"], filter=ds.field("year") == 2001
    )
    wanted = [i for i in range(ROWS) if i % 3 == 1]
    assert sorted(found["number"].to_pylist()) == wanted
    fs.close()


def test_parquet_is_read_from_an_open_file(table: str) -> None:
    with fsspec.open(table) as file:
        parquet = pq.ParquetFile(file)
        assert parquet.metadata.num_rows == ROWS
        assert (
            parquet.read_row_group(1, columns=["number"])["number"][0].as_py() == 20_000
        )
