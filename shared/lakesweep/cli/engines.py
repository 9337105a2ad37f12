"""What carries a stored plan out, as a command line says."""

from lakesweep.cli.options import Place
from lakesweep.errors import UsageError
from lakesweep.execute.waves import KEYS_PER_S, MAX_KEYS_PER_S, MIN_KEYS_PER_S
from lakesweep.operations.context import Table
from lakesweep.operations.run import LOCAL, Engine
from lakesweep.storage.open import StoreSettings

_ENGINES = ("local", "spark")


def chosen_engine(place: Place, table: Table, engine: str | None, rate: str | None) -> Engine:
    """Return the engine that `--engine` names.

    Args:
        place: As typed.
        table: Opened there.
        engine: `local`, `spark`, or `None` for the first.
        rate: Objects a second, as typed.

    Raises:
        UsageError: Another word, a rate that means nothing, or no Spark.
    """
    if engine not in (None, *_ENGINES):
        raise UsageError(f"--engine: expected {' or '.join(_ENGINES)}, found {engine!r}", code="bad_argument")
    if engine != "spark":
        if rate is not None:
            raise UsageError("--rate: expected it with --engine spark alone", code="bad_argument")
        return LOCAL
    keys_per_s = _rate(rate)
    from lakesweep.spark.session import open_session

    try:
        from lakesweep.spark.execute import spark_engine
    except ImportError as error:
        raise UsageError(
            f"engine spark: {error}; expected `pip install 'lakesweep[spark]'`", code="no_spark"
        ) from error
    settings = StoreSettings(endpoint_url=place.endpoint_url, region=place.region)
    return spark_engine(open_session, settings, table.counter, keys_per_s)


def _rate(text: str | None) -> float:
    if text is None:
        return KEYS_PER_S
    if not (text.isascii() and text.isdigit() and MIN_KEYS_PER_S <= int(text) <= MAX_KEYS_PER_S):
        raise UsageError(
            f"--rate: expected a number from {MIN_KEYS_PER_S} to {MAX_KEYS_PER_S}, found {text!r}", code="bad_argument"
        )
    return int(text)
