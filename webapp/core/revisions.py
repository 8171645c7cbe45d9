"""One stored revision of what a page shows, which every write raises in its own transaction.

A page or feed is kept under the revisions of its scopes: "papers", "profile:mine", "run:0198c0de…".
They are raised by triggers of the database, so by whatever writes: a model's `save`, `update` and
`bulk_create`, SQL of our own, a cascade, the admin, another process. Django's signals would miss
all but the first. `webapp.pages.revisions` lists which table raises which scope.

Writers never wait for each other here. On PostgreSQL a row that two transactions write makes the
second wait for the first to end, and two scopes written in different orders would be a deadlock; so
each open transaction writes rows of its own, at the lowest slot whose lock it gets at once, and the
revision of a scope is the numbers in all its slots. SQLite has one writer at a time, and one slot.

Work in the background goes by the same writes. What depends on one row of many, such as what is
learned of a reader, is raised as `pending` and taken away when it is done. What looks at whole
tables is done `once` under their revisions.

A migration changes tables under their triggers, which SQLite refuses, and older tables may lack the
columns that a trigger names: so `remove` runs before migrations and `install` after.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

TABLE, PENDING = "ui_revision", "ui_pending"
EVERYTHING = ""  # a scope of all pages: raised when the triggers were away
LOCKS = 0x41535245  # "ASRE": the advisory locks of PostgreSQL's slots

# The lowest slot that no other open transaction has.
SLOT = f"""
    CREATE OR REPLACE FUNCTION revision_slot() RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE slot integer := 0;
    BEGIN
        WHILE NOT pg_try_advisory_xact_lock({LOCKS}, slot) LOOP slot := slot + 1; END LOOP;
        RETURN slot;
    END $$
"""

Token = tuple[tuple[str, int], ...]
Wait = tuple[str, int, int]  # scope, slot and token of work that waits
_watches: list["Watch"] = []


def revision(*scopes: str) -> Token:
    """The revisions of these scopes, to be compared for equality; one query by primary key.

    Read it before what the page shows: a write in between then makes the page anew once too often,
    never once too rarely.
    """
    marks = ", ".join(["%s"] * (len(scopes) + 1))
    statement = f"SELECT scope, token FROM {TABLE} WHERE scope IN ({marks}) ORDER BY scope, slot"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, (EVERYTHING, *scopes))
        return tuple(cursor.fetchall())


def once(
    work: str, scopes: Sequence[str], act: Callable[[], tuple[int, bool]], *inputs: object
) -> int:
    """Do `work`, unless it was done under the same revisions of `scopes` with the same `inputs`.

    `act` returns how many rows it changed, and whether all is done: otherwise the next call goes
    on. Returns the former; 0, after two queries, where there was nothing to do.
    """
    seen = sha256(repr((revision(*scopes), inputs)).encode()).hexdigest()
    with connection.cursor() as cursor:
        cursor.execute("SELECT revisions FROM ui_settled WHERE work = %s", [work])
        if cursor.fetchone() == (seen,):
            return 0
    changed, is_done = act()
    if is_done:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO ui_settled (work, revisions) VALUES (%s, %s)"
                " ON CONFLICT (work) DO UPDATE SET revisions = excluded.revisions",
                [work, seen],
            )
    return changed


def pending(work: str) -> dict[str, list[Wait]]:
    """Return the pending rows of `work` by key, in one query.

    The key "" means that all of it is due, because the triggers were missing for a while.
    """
    statement = f"SELECT scope, slot, token FROM {PENDING} WHERE scope LIKE %s"  # noqa: S608
    waiting: dict[str, list[Wait]] = {}
    with connection.cursor() as cursor:
        cursor.execute(statement, [f"{work}:%"])
        for wait in cursor.fetchall():
            waiting.setdefault(wait[0].removeprefix(f"{work}:"), []).append(wait)
    return waiting


def settle(waits: Iterable[Wait]) -> None:
    """Delete pending rows whose work is done; rows raised again in the meantime stay."""
    with connection.cursor() as cursor:
        for wait in waits:
            cursor.execute(
                f"DELETE FROM {PENDING} WHERE scope = %s AND slot = %s AND token = %s",  # noqa: S608
                wait,
            )


@dataclass(frozen=True)
class Watch:
    """A table whose rows are shown, and the scopes that a change of a row raises.

    `scopes` is a query for them, in which `{row}` stands for the row: before and after an update.
    An update counts if it changes a column of the table that is not `hidden`: so a page that shows
    a new column is never stale because somebody forgot to list it here. `key` is the table's
    primary key. The scopes of a watch for some `work` are not revisions but what waits for it
    ("learn:7" for "learn"); it may name the only `columns` and `events` that count.
    """

    table: str
    scopes: str
    hidden: Sequence[str] = ()
    key: str = "id"
    work: str = ""
    columns: Sequence[str] = ()
    events: Sequence[str] = ("insert", "delete", "update")

    def counted(self, table_columns: Iterable[str]) -> list[str]:
        """Return the columns whose changes count, in the table's order."""
        if self.columns:
            return [name for name in table_columns if name in self.columns]
        return [name for name in table_columns if name not in self.hidden]

    @property
    def table_raised(self) -> str:
        """Table in which the trigger raises its scopes."""
        return PENDING if self.work else TABLE


def watch(*watches: Watch) -> None:
    """Declare what `install` makes triggers for; called once, as the site is loaded."""
    _watches.extend(watches)


def is_installed() -> bool:
    """True if the installed triggers are those of the watches."""
    return _installed(connection) == set(_triggers(connection))


def install(database: BaseDatabaseWrapper = connection) -> None:
    """Make the triggers of the watches, in place of those that are there; then all is shown anew.

    A table that does not exist yet is left out: its migrations come later.
    """
    triggers = _triggers(database)
    if _installed(database) == set(triggers):
        return
    with transaction.atomic(database.alias), database.cursor() as cursor:
        remove(database)
        if database.vendor == "postgresql":
            cursor.execute(SLOT)
        for statements in triggers.values():
            for statement in statements:
                cursor.execute(statement)
        if triggers:
            cursor.execute(_raising(f"SELECT '{EVERYTHING}' AS scope", database.vendor))
            for work in {watch.work for watch in _watches} - {""}:
                everything = f"SELECT '{work}:' AS scope"
                cursor.execute(_raising(everything, database.vendor, PENDING))


def _triggers(database: BaseDatabaseWrapper) -> dict[str, list[str]]:
    """Return the SQL statements of each trigger, by name."""
    tables = set(database.introspection.table_names())
    triggers: dict[str, list[str]] = {}
    if not {TABLE, PENDING} <= tables:
        return triggers
    dialect = _postgresql if database.vendor == "postgresql" else _sqlite
    columns = _columns(database, {watch.table for watch in _watches} & tables)
    for watch in _watches:
        if watch.table in tables:
            counted = watch.counted(columns[watch.table])
            statements_by_event = dialect(watch, counted)
            for event in watch.events:
                statements = statements_by_event[event]
                # A hash of what the trigger does, so that a changed watch gets a new trigger.
                digest = sha256(f"{watch.table}{statements}".encode()).hexdigest()[:12]
                name = f"revision_{digest}_{event}"
                triggers[name] = [statement.replace("<name>", name) for statement in statements]
    return triggers


def _columns(database: BaseDatabaseWrapper, tables: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of each table, by their names: migrations may have added any."""
    with database.cursor() as cursor:
        return {
            table: sorted(
                column.name
                for column in database.introspection.get_table_description(cursor, table)
            )
            for table in tables
        }


def remove(database: BaseDatabaseWrapper = connection) -> None:
    """Drop all triggers of revisions."""
    with database.cursor() as cursor:
        for name in _installed(database):
            if database.vendor == "postgresql":  # a trigger goes with its function
                cursor.execute(f"DROP FUNCTION {name} CASCADE")
            else:
                cursor.execute(f"DROP TRIGGER {name}")


def _installed(database: BaseDatabaseWrapper) -> set[str]:
    with database.cursor() as cursor:
        if database.vendor == "postgresql":
            cursor.execute(
                "SELECT proname FROM pg_proc WHERE proname ~ '^revision_[0-9a-f]{12}_'"
                " AND pronamespace = current_schema()::regnamespace"
            )
        else:
            cursor.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'revision_*'"
            )
        return {name for (name,) in cursor.fetchall()}


def _raising(scopes: str, vendor: str, table: str = TABLE) -> str:
    """Return the statement that raises the scopes that a query gives, except NULL."""
    if vendor == "postgresql":
        slot = "(SELECT revision_slot())"  # as a query of its own it is called once
        number = (
            "('x' || left(md5(random()::text || clock_timestamp()::text), 16))::bit(64)::bigint"
        )
    else:
        slot, number = "0", "random()"
    return f"""
        INSERT INTO {table} (scope, slot, token)
        SELECT scope, {slot}, {number} FROM (
            SELECT DISTINCT raised.scope AS scope FROM ({scopes}) AS raised
        ) AS once WHERE scope IS NOT NULL
        ON CONFLICT (scope, slot) DO UPDATE SET token = excluded.token;
    """  # noqa: S608


def _sqlite(watch: Watch, counted: Sequence[str]) -> dict[str, list[str]]:
    """Return the statements that make the trigger of each event, for every row."""
    before, after = (watch.scopes.format(row=row) for row in ("OLD", "NEW"))
    names = ", ".join(f'"{name}"' for name in counted)
    changed = " OR ".join(f'OLD."{name}" IS NOT NEW."{name}"' for name in counted)
    events = {
        "insert": ("INSERT", after),
        "delete": ("DELETE", before),
        "update": (f"UPDATE OF {names}", f"{before} UNION {after}"),
    }
    return {
        event: [
            f"CREATE TRIGGER <name> AFTER {when} ON {watch.table} FOR EACH ROW"
            f"{f' WHEN {changed}' if event == 'update' else ''}"
            f" BEGIN {_raising(scopes, 'sqlite', watch.table_raised)} END"
        ]
        for event, (when, scopes) in events.items()
    }


def _postgresql(watch: Watch, counted: Sequence[str]) -> dict[str, list[str]]:
    """Return the statements that make the trigger of each event: once for all its rows."""
    before, after = (watch.scopes.format(row=row) for row in ("was", "now"))
    changed = " OR ".join(f'was."{name}" IS DISTINCT FROM now."{name}"' for name in counted)
    updated = f"was_rows AS was JOIN now_rows AS now USING ({watch.key})"
    events = {
        "insert": ("NEW TABLE AS now_rows", "now_rows AS now", after, ""),
        "delete": ("OLD TABLE AS was_rows", "was_rows AS was", before, ""),
        "update": (
            "OLD TABLE AS was_rows NEW TABLE AS now_rows",
            updated,
            f"{before} UNION {after}",
            f" WHERE {changed}",
        ),
    }
    return {
        event: [
            f"CREATE FUNCTION <name>() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" {_raising(_scopes_by_row(rows, scopes, where), 'postgresql', watch.table_raised)}"
            " RETURN NULL; END $$",
            f"CREATE TRIGGER <name> AFTER {event.upper()} ON {watch.table}"
            f" REFERENCING {tables} FOR EACH STATEMENT EXECUTE FUNCTION <name>()",
        ]
        for event, (tables, rows, scopes, where) in events.items()
    }


def _scopes_by_row(rows: str, scopes: str, where: str) -> str:
    return f"SELECT each.scope FROM {rows} CROSS JOIN LATERAL ({scopes}) AS each{where}"  # noqa: S608
