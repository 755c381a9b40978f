"""Rows that an engine counts where they live: the same whole numbers as from memory, bit for bit, from every engine."""

import dataclasses
import datetime
import decimal
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from commands import Answer, in_process
from engines import DuckDb, Postgres, Spark, postgres
from pyarrow import parquet

import gossamer
from gossamer.data.columns.column import Column
from gossamer.data.source import Address, Source
from gossamer.data.sources import servers
from gossamer.data.tables import by_engine
from gossamer.data.tables import table as tables
from gossamer.data.tables.by_engine import TableByEngine
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.read import read_table
from gossamer.data.tables.table import Map, Table, identify, size_of
from gossamer.errors import CardError, DataError, RequestError
from gossamer.privacy.random.noise import Rng

NAN = float("nan")
TEXTS = ["a", "é", "e\u0301", " b ", "", None, "n/a", "a\u00a0", "b", "A a", "A a", "'"]
COUNT = len(TEXTS)


def moments(*texts: str | None) -> list[datetime.datetime | None]:
    return [None if text is None else datetime.datetime.fromisoformat(text) for text in texts]


@functools.cache
def nasty() -> pa.Table:
    """Missing values, NaN, zones, accents, a negative zero, and the ends of bins. Then plain rows, of persons with many."""
    zoned = moments(
        "2024-03-31T00:59:59.999999+00:00", "2024-03-31T01:00:00+00:00", "2024-10-27T00:30:00+00:00", None,
        "2024-10-27T01:30:00+00:00", "2023-12-31T22:59:59.999999+00:00", "2023-12-31T23:00:00+00:00",
        "2024-12-31T23:00:00+00:00", "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00", None,
        "2024-07-01T00:00:00+00:00",
    )  # fmt: skip
    edge = {
        "text": TEXTS,
        "amount": [1.5, NAN, -0.0, 1e300, 7.25, None, 3.0, 10.0, np.nextafter(10, 11), np.nextafter(2.5, 0), 2.5, -1e-300],
        "age": [1, 2, 3, 99, 98, None, 0, 10**9, -(2**63) + 1, 2**63 - 1, -1, 4],
        "score": [1.0, 2.0, 0.5, NAN, None, 3.0, 1.0, 1e300, -0.0, 0.0, 2.0000000000000004, 3.0],
        "zoned": zoned,
        "clock": moments("2024-02-29T12:00:00.000001", *["2024-03-01"] * 10, None),
        "day": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]
        + [datetime.date(2024, 3, 1)] * 8,
        "price": [*map(decimal.Decimal, ["1.25", "9.9999", "0", "10", "-0.0001", "3.3333"]), *[None] * 6],
        "yes": [True, False, None, *[True] * 9],
        "number": ["1", "01", " 1.0", "2", "NA", None, "1e0", "3", "2.50", "true", "", "2"],
        "written": ["2024-02-29", "29.02.2024", "", None, "n/a", *["2024-03-01"] * 7],
        "person": ["7", "7", "7", "p1", "p1", "é", None, "", "7", "p 2", "p 2", "p3"],
    }  # fmt: skip
    rng, start = np.random.default_rng(0), datetime.datetime(2023, 12, 1)
    many, texts = 400, ["a", "b", "é"]
    clocks = [start + k * datetime.timedelta(hours=22, minutes=37) for k in range(many)]
    plain = {
        "text": [texts[k % 3] for k in range(many)],
        "amount": rng.normal(5, 4, many).tolist(),
        "age": rng.integers(0, 5, many).tolist(),
        "score": rng.integers(0, 4, many).astype(float).tolist(),
        "zoned": [each.replace(tzinfo=datetime.UTC) for each in clocks],
        "clock": clocks,
        "day": [each.date() for each in clocks],
        "price": [None if k % 7 == 0 else edge["price"][k % 6] for k in range(many)],
        "yes": [k % 3 == 0 for k in range(many)],
        "number": [str(1 + k % 3) for k in range(many)],
        "written": [each.date().isoformat() for each in clocks],
        "person": [f"q{k % 90}" if k % 5 else "7" for k in range(many)],
    }
    types = [pa.string(), pa.float64(), pa.int64(), pa.float64(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(),
             pa.decimal128(20, 4), pa.bool_(), *[pa.string()] * 3]  # fmt: skip
    return pa.table({name: pa.array([*edge[name], *plain[name]], kind) for name, kind in zip(edge, types, strict=True)})


YEAR = ("2024-01-01T00:00:00", "2025-01-01T00:00:00")
CHANGES = (YEAR[0], "2024-03-31T01:30:00", "2024-03-31T03:00:00", "2024-10-27T02:15:00", "2024-10-27T02:45:00", YEAR[1])
"""Also times that a clock does not show, or shows twice."""
CARD = TableCard(
    columns=(
        Column(name="text", kind="category", values=("a", "é", "b", "'"), missing=True, outside="other"),
        Column(name="amount", kind="number", bounds=(0.0, 10.0), bins=4, zero=True, outside="clip", missing=True),
        Column(name="age", kind="integer", bounds=(0, 3), special=(99,), outside="other", missing=True),
        Column(name="score", kind="integer", bounds=(0, 3), outside="other", missing=True),
        Column(name="zoned", kind="datetime", edges=CHANGES, outside="clip", missing=True, zone="Europe/Berlin"),
        Column(name="clock", kind="datetime", bounds=YEAR, bins=12, outside="clip", missing=True),
        Column(name="day", kind="date", bounds=("2024-02-01", "2024-03-31"), outside="clip", missing=True),
        Column(name="price", kind="number", bounds=(0.0, 10.0), bins=7, outside="other", special=(9.9999,), missing=True),
        Column(name="yes", kind="boolean", missing=True),
        Column(name="number", kind="category", values=("1", "2", "3"), numbers=True, outside="other", missing=True),
        Column(name="written", kind="date", bounds=("2024-01-01", "2024-12-31"), outside="other", missing=True),
    ),
    declared_size=100, unit="person", max_rows=2, missing_unit="own",
)  # fmt: skip
MAPS: list[Map] = [(k, np.arange(size)) for k, size in enumerate(CARD.domain)]
MAPS += [(4, np.arange(CARD.domain[4]) // 2), (1, np.array([1, 0, 1, 2, 0, 3][: CARD.domain[1]]))]
CLIQUES = [
    clique
    for k in (1, 2, 3)
    for clique in itertools.combinations(range(len(MAPS)), k)
    if np.prod([size_of(MAPS[at]) for at in clique]) < 9_000 and (k < 3 or sum(clique) % 7 == 0)
]
FEW = dataclasses.replace(CARD, columns=CARD.columns[:3])
"""For runs whose model does not matter."""


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


def in_postgres(server: Postgres, rows: pa.Table) -> servers.PostgreSql:
    return servers.PostgreSql(Address(server.server, f'"{server.fill(rows)}"'))


@pytest.fixture(params=["PostgreSQL", "DuckDB", pytest.param("Spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> Callable[[pa.Table], Any]:
    """From rows to a session that holds them."""
    if request.param == "PostgreSQL":
        server = request.getfixturevalue("server")
        return lambda rows: in_postgres(server, rows)
    return {"DuckDB": DuckDb, "Spark": Spark}[request.param]


def counted_by(session: Any, card: TableCard = CARD, units: str | None = "person") -> TableByEngine:
    names = session.schema().names
    unit_at = None if units is None else names.index(units)
    return by_engine.table_by_engine(session, card, [names.index(name) for name in card.names], unit_at, "visits")


def in_memory(rows: pa.Table, folder: Path, card: TableCard = CARD, units: str | None = "person") -> Table:
    """Read from a file, as any table is."""
    parquet.write_table(rows, folder / "visits.parquet")
    return read_table(Source(str(folder / "visits.parquet"), units=units), card)


def counts(held: Any, max_rows: int = CARD.max_rows) -> list[list[int]]:
    return [each.tolist() for each in held.counts(MAPS, CLIQUES, max_rows)]


@pytest.mark.parametrize("units", ["person", None])
def test_an_engine_has_the_counts_of_memory_bit_for_bit(
    engine: Callable[[pa.Table], Any], tmp_path: Path, units: str | None
) -> None:
    """Over missing values, NaN, a clock that is changed, accents, a negative zero, and units of many rows."""
    card = CARD if units else dataclasses.replace(CARD, unit="record", max_rows=1, missing_unit="refuse")
    held, read = counted_by(engine(nasty()), card, units), in_memory(nasty(), tmp_path, card, units)
    assert counts(held, card.max_rows) == counts(read, card.max_rows)
    assert (len(held), held.population, held.without_id) == (len(read), read.population, read.without_id)


def test_numbers_of_32_bits_are_as_they_are_written_in_an_engine_too(
    engine: Callable[[pa.Table], Any], tmp_path: Path
) -> None:
    """0.7 of 32 bits lies below 0.7 of 64 bits, so a cast would put it into the bin before."""
    tenths = [k / 10 for k in range(10)] * 3
    rows = pa.table(
        {"ratio": pa.array([*tenths, None, NAN], pa.float32()), "level": pa.array([*tenths, 0.5, 0.5], pa.float32())}
    )
    levels = Column(name="level", kind="category", values=tuple(map(str, tenths[:10])), numbers=True)
    ratio = Column(name="ratio", kind="number", bounds=(0.0, 0.9), decimals=1, bins=10, missing=True)
    card = TableCard(columns=(ratio, levels), declared_size=32)
    held, read = counted_by(engine(rows), card, None), in_memory(rows, tmp_path, card, None)
    assert read.codes[:10].tolist() == [[k, k] for k in range(10)]
    maps: list[Map] = [(k, np.arange(size)) for k, size in enumerate(card.domain)]
    expected = [[3 * tables.GRID] * 10 + [2 * tables.GRID], [(3 + 2 * (k == 5)) * tables.GRID for k in range(10)]]
    assert [each.tolist() for each in held.counts(maps, [(0,), (1,)], 1)] == expected
    assert [each.tolist() for each in read.counts(maps, [(0,), (1,)], 1)] == expected


def test_a_unit_of_very_many_rows_weighs_nothing_in_an_engine_too(
    engine: Callable[[pa.Table], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a grid of 16 steps, 33 rows are as 2,000,001 are with one of 2^20."""
    for module in (tables, by_engine):
        monkeypatch.setattr(module, "GRID", 16)
    held, read = counted_by(engine(nasty())), in_memory(nasty(), tmp_path)
    weights = np.unique(tables.row_weights(read.units, 2)).tolist()
    assert {0.0, 6.0, 8.0, 16.0} <= {*weights}
    assert counts(held) == counts(read)


def test_a_person_moves_each_table_of_an_engine_by_at_most_what_counts_in_full(
    engine: Callable[[pa.Table], Any],
) -> None:
    rows = nasty()
    whole = counts(counted_by(engine(rows)))
    for person in ("7", "p1", "p 2", "q3"):
        stay = pa.array([each != person for each in rows["person"].to_pylist()])
        for before, after in zip(whole, counts(counted_by(engine(rows.filter(stay)))), strict=True):
            moved = np.subtract(before, after)
            assert moved.min() >= 0
            assert 0 < moved.sum() <= CARD.max_rows * tables.GRID


def test_the_mark_is_of_the_rows_in_any_order_and_of_their_values(engine: Callable[[pa.Table], Any]) -> None:
    rows = nasty()
    one = identify(counted_by(engine(rows)))
    other = rows.take(np.random.default_rng(0).permutation(len(rows))).select([*reversed(rows.column_names)])
    assert identify(counted_by(engine(other))).mark == one.mark
    changed = rows.set_column(2, "age", pa.array([2, *rows["age"].to_pylist()[1:]], pa.int64()))
    assert identify(counted_by(engine(changed))).mark != one.mark


def test_queries_hold_constants_of_the_card_and_no_value_of_a_row(engine: Callable[[pa.Table], Any]) -> None:
    asked, session = list[str](), engine(nasty())
    ask = session.ask
    session.ask = lambda query: asked.append(query) or ask(query)
    counts(counted_by(session))
    together = "\n".join(asked)
    assert "'é'" in together  # declared
    for value in ("A a", "e\u0301", "p1", "29.02.2024", "7.25", "n/a", "2.50"):
        assert value not in together


def test_values_that_the_card_does_not_allow_are_named_by_column_and_number(engine: Callable[[pa.Table], Any]) -> None:
    strict = dataclasses.replace(
        CARD,
        columns=tuple(dataclasses.replace(each, missing=False, outside="refuse") for each in CARD.columns[:4]),
        missing_unit="refuse",
    )
    with pytest.raises(DataError) as found:
        counted_by(engine(nasty()), strict)
    text = str(found.value)
    assert "column 'age', 1 rows: the value is missing" in text
    assert "column 'score', 2 rows: the number is not whole" in text
    assert "2 rows have no id of a unit" in text
    assert "A a" not in text


@pytest.mark.parametrize("name", [" 7", "07", "e\u0301", "7.0"])
def test_an_id_that_can_be_written_in_two_ways_is_refused(engine: Callable[[pa.Table], Any], name: str) -> None:
    rows = nasty()
    rows = rows.set_column(11, "person", pa.array([name, *rows["person"].to_pylist()[1:]]))
    with pytest.raises(DataError, match="take two spellings for two units"):
        counted_by(engine(rows))


def test_a_word_that_means_no_id_is_refused(engine: Callable[[pa.Table], Any]) -> None:
    rows = nasty().set_column(11, "person", pa.array(["none"] * len(nasty())))
    with pytest.raises(DataError, match="a word that often means a missing one"):
        counted_by(engine(rows))


def test_many_texts_that_nobody_declared_are_refused(
    engine: Callable[[pa.Table], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_engine, "MOST_TEXTS", 3)
    with pytest.raises(DataError, match="'text': it holds more than 3 different texts"):
        counted_by(engine(nasty()))


def test_rules_between_columns_are_not_for_engines() -> None:
    ruled = dataclasses.replace(
        CARD, columns=(dataclasses.replace(CARD.columns[0], missing_with="amount"), *CARD.columns[1:])
    )
    with pytest.raises(CardError, match="does not apply"):
        counted_by(DuckDb(nasty()), ruled)


@pytest.mark.parametrize("kind", ["int64", "clock", "double", "date32[day]", "timestamp[us]"])
def test_steps_are_those_of_the_reader_at_every_neighbour_of_a_start(kind: str) -> None:
    """Values that are drawn near the starts of steps and anywhere have the code of their step."""
    words: dict[str, Any] = {"missing": True, "missing_words": ("-9",), "outside": "other"}
    of_numbers = Column(name="x", kind="number", bounds=(-5.0, 5.0), bins=7, special=(2.0, 1e6), **words)
    of_times = Column(name="x", kind="datetime", bounds=YEAR, bins=9, special=("2024-06-01T00:00:00",), outside="other")
    of_clock = Column(name="x", kind="integer", bounds=(0, 2400), bins=9, special=(9999,), clock=True, **words)
    column = {"int64": of_numbers, "double": of_numbers, "clock": of_clock}.get(kind, of_times)
    reader = by_engine.Reader(column)
    types = {"int64": pa.int64(), "clock": pa.int64(), "double": pa.float64(), "date32[day]": pa.date32()}
    arrow = types.get(kind, pa.timestamp("us"))
    starts, codes = by_engine._starts(reader, column, arrow)
    rng = np.random.default_rng(0)
    anywhere = rng.choice(starts[1:], 2_000) + rng.integers(-3, 3, 2_000)
    anywhere = anywhere.clip(starts[0], starts[-1])
    expected = reader.codes(by_engine._values(anywhere, arrow))
    assert np.array_equal(codes[np.searchsorted(starts, anywhere, side="right") - 1], expected)
    assert len({*expected.tolist()}) > 8


def fit(data: Any) -> gossamer.Synthesizer:
    """A run whose noise is fixed: two rounds, with tables of three columns in the second."""
    quiet = gossamer.Process(rng=Rng(0, noise_seed=1), sink=lambda _event: None)
    units = Source(data, units="person", public_test_data=True)
    few = {"rounds": 2, "triples_from": 2, "iterations": 9}
    return gossamer.fit("marginals", data=units, card=CARD, epsilon=5, delta=1e-5, process=quiet, **few)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """What this run releases of a file."""
    folder = tmp_path_factory.mktemp("model")
    in_memory(nasty(), folder)
    return fit(str(folder / "visits.parquet")).net.state_dict()


def test_one_fit_from_each_engine_gives_the_same_model_bit_for_bit(
    engine: Callable[[pa.Table], Any], model: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine(nasty())
    monkeypatch.setattr(servers, "PostgreSql", lambda _address: session)
    made = fit("postgres://host/db?table=visits")
    assert made.net.state_dict().keys() == model.keys()
    for name, each in made.net.state_dict().items():
        assert torch.equal(each, model[name])
    counting = [each for each in made.certificate.assumptions if "counts the rows exactly" in each]
    assert counting == [f"{session.name} counts the rows exactly, and two ids are one person if their bytes are equal"]


def test_the_rows_of_a_server_are_read_as_those_of_a_file(server: Postgres, tmp_path: Path) -> None:
    """For drafts, and for `evaluate` and `attack`, which compare rows. Times that Python does not have are the nearest."""
    table = server.fill(nasty())
    server.do(f"insert into {table} (clock, day, person) values ('infinity', '-infinity', '7')")
    read = read_table(Source(f"{server.server}?table={table}", units="person"), CARD)
    rows = nasty()
    last = {"clock": datetime.datetime(9999, 12, 31, 23, 59, 59), "day": datetime.date(1, 1, 1), "person": "7"}
    more = pa.table({name: pa.array([last.get(name)], rows.schema.field(name).type) for name in rows.column_names})
    expected = in_memory(pa.concat_tables([rows, more]), tmp_path)
    assert np.array_equal(read.codes, expected.codes)
    held = read_table(Source(f"{server.server}?table={table}", units="person"), CARD, only_counts=True)
    assert counts(held) == counts(expected)


def test_parts_of_a_table_are_whole_persons_and_add_up(server: Postgres) -> None:
    table = server.fill(nasty())
    parts = [
        read_table(Source(f"{server.server}?part={part}&by=person&table={table}", units="person"), CARD)
        for part in ("0-0.6", "0.6-1")
    ]
    whole = read_table(Source(f"{server.server}?table={table}", units="person"), CARD)
    assert sum(map(len, parts)) == len(whole)
    train, test = ({*part.names.tolist()} - {""} for part in parts)
    assert not train & test
    assert len(train) > len(test) > 10
    with pytest.raises(RequestError, match="by=COLUMN"):
        Source(f"{server.server}?part=0-0.6&table={table}", units="person")


def test_a_draft_comes_from_a_server(server: Postgres) -> None:
    table = server.fill(nasty().select(["text", "age", "yes", "zoned", "person"]))
    draft = gossamer.draft_card(Source(f"{server.server}?table={table}", units="person"))
    assert 'kind = "boolean"' in draft.text
    assert 'kind = "datetime"' in draft.text


def test_a_split_names_parts_of_the_address(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"part=0-0\.8&by=COLUMN&table=NAME"):
        gossamer.split("postgres://host/db?table=visits", out=tmp_path / "parts")


# ---------------------------------------------------------------------- what can go wrong


def one_paragraph(answer: Answer) -> str:
    """What a refused command says: one paragraph, without a secret or a value."""
    assert answer.status == 2
    said = answer.err.strip()
    assert said
    assert "\n\n" not in said
    assert "Traceback" not in said
    for hidden in ("s3cret", "A a", "29.02.2024", "'p 2'"):
        assert hidden not in answer.err + answer.out
    return said


@pytest.fixture
def fit_command(
    server: Postgres, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """Fits to an address, in this process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "card.toml").write_text(FEW.dumps())
    command = in_process(capsys)
    flags = ["--card", "card.toml", "--units", "person", "--epsilon", "5", "--delta", "1e-5", "--out", "run"]
    return lambda address, *more: command("fit", "marginals", "--data", address, *flags, *more)


@pytest.mark.parametrize(
    "address",
    [
        "postgres://owner:s3cret@host/db?table=visits",
        "postgres://host/db?password=s3cret&table=visits",
        "postgres://owner:s3cret@host/db",
        "mysql://owner:s3cret@host/db?table=visits",
    ],
)
def test_a_password_in_an_address_is_refused_unshown(fit_command: Callable[..., Answer], address: str) -> None:
    said = one_paragraph(fit_command(address))
    assert "~/.pgpass" in said
    assert not Path("run").exists()


def test_a_server_that_does_not_answer_is_named(fit_command: Callable[..., Answer]) -> None:
    assert "does not answer" in one_paragraph(fit_command("postgres://owner@127.0.0.1:1/db?table=visits"))
    assert not Path("run").exists()


def test_a_user_without_rights_is_told_whom_to_ask(fit_command: Callable[..., Answer], server: Postgres) -> None:
    table = server.fill(nasty())
    server.do("drop role if exists guest", "create role guest login")
    guest = server.server.replace("owner@", "guest@")
    said = one_paragraph(fit_command(f"{guest}?table={table}"))
    assert "code 42501" in said
    assert "GRANT SELECT" in said
    assert "no such table" in one_paragraph(fit_command(f"{server.server}?table=nowhere"))
    assert "no such table" in one_paragraph(fit_command(f"{server.server}?query=select nothing from {table}"))
    assert not Path("run").exists()


def test_a_session_can_change_nothing(server: Postgres) -> None:
    table = server.fill(nasty())
    session = servers.PostgreSql(Address(server.server, f'"{table}"'))
    with pytest.raises(DataError, match="code 25006"):
        session._connection.execute("select 1")
        with session._failing():
            session._connection.execute(f"delete from {table}")


def test_a_session_that_the_server_ends_is_named(server: Postgres) -> None:
    session = in_postgres(server, nasty())
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname <> ''"
    server.do(ended)
    with pytest.raises(DataError, match=r"code 57P01\)\. The server has ended .* No cost was recorded for the query"):
        session.schema()


def test_a_server_that_is_killed_costs_no_query_and_the_run_goes_on(
    fit_command: Callable[..., Answer],
    server: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`kill -9` of the server before the counts of the second query. It is begun again, and rows that came are noticed."""
    table, grouped, asked = server.fill(nasty()), TableByEngine.grouped, list[int]()

    def dying(self: TableByEngine, *given: Any) -> list[np.ndarray]:
        asked.append(len(asked))
        if len(asked) == 3:
            server.kill()
        return grouped(self, *given)

    monkeypatch.setattr(TableByEngine, "grouped", dying)
    answer = fit_command(f"{server.server}?table={table}", "--rounds", 1, "--columns-share", 0.5)
    said = one_paragraph(answer)
    assert "No cost was recorded for the query" in said
    assert "gossamer resume" in said
    charges = Path("run/ledger.jsonl").read_text().count('"charge"')
    assert charges == 1  # of the first query, which was answered
    command = in_process(capsys)
    server.do(f"insert into {table} (person) values ('7')")
    assert "is not what it was when the run began" in one_paragraph(command("resume", "run"))
    server.do(f"delete from {table} where ctid = (select max(ctid) from {table})")
    assert command("resume", "run").status == 0
    assert "PostgreSQL" in Path("run/certificate.json").read_text()


def test_all_queries_of_a_run_see_the_same_rows(server: Postgres, tmp_path: Path) -> None:
    table = server.fill(nasty())
    held = counted_by(servers.PostgreSql(Address(server.server, f'"{table}"')))
    server.do(f"delete from {table} where person = '7'")
    assert counts(held) == counts(in_memory(nasty(), tmp_path))
    assert len(counted_by(servers.PostgreSql(Address(server.server, f'"{table}"')))) < len(held)
