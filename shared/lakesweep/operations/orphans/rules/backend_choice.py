"""Choose where an orphan scan runs: in one process, on functions or on Spark, each with or without an S3 Inventory.

Memory and time limit one process. The memory of the function that advances a fan-out limits the functions. Lakesweep
takes the cheapest backend that fits, unless another is much faster. Among equally cheap ones, it takes the one with the
fewest parts. All backends find the same orphans, so a wrong choice costs time or money and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.model.scans import SAID_FROM, Engine, Estimate, Facts, InventoryFacts, SparkFacts
from lakesweep.operations.orphans.rules.backend_estimates import local_estimate, local_mib, spark_estimate
from lakesweep.operations.orphans.rules.fan_out_estimate import fan_out_estimate

COMFORTABLE = 0.5
"""Share of a process's memory and time that a scan may plan with. Facts are usually guesses, and a scan that dies has
cost everything and found nothing."""
MAX_LAMBDA_OBJECTS = 20_000_000
"""The function that advances a fan-out keeps its facts about each task, and the parts of the plan, in one gigabyte.
For larger tables, Spark sorts in parallel."""
MIN_INVENTORY_OBJECTS = 10_000_000
"""With fewer objects, a listing costs less than five cents, and also sees objects newer than the inventory."""
SAME_USD = 0.01
"""Estimates that differ by less count as equal."""
FAR_LONGER = 4.0
WORTH_S = 600.0
"""Another backend replaces the cheapest if it takes a quarter of the time and is ready ten minutes earlier."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a scan runs, and why."""

    engine: Engine
    reason: str
    """One sentence, with figures."""
    estimate: Estimate
    """The estimate of the chosen backend."""
    estimates: tuple[Estimate, ...]
    """The estimates of all backends that fit, cheapest first, to a cent."""
    use_inventory: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the stored form."""
        return {
            "engine": self.engine,
            "reason": self.reason,
            "use_inventory": self.use_inventory,
            "estimates": [estimate.to_json() for estimate in self.estimates],
        }


def estimate_of(facts: Facts, engine: Engine, *, inventory: bool = False) -> Estimate:
    """Return what a scan by one backend would take, whether the backend fits or not."""
    if engine == "lambda":
        return fan_out_estimate(facts)
    if engine == "spark":
        return spark_estimate(facts, facts.spark or SparkFacts(), inventory=inventory)
    return local_estimate(facts, inventory=inventory)


def choose_backend(facts: Facts) -> Choice:
    """Choose where a scan runs."""
    engines = _available(facts)
    unfit = {engine: why for engine in engines if (why := _why_unfit(facts, engine))}
    if not engines.keys() - unfit.keys():  # Some backend must run the scan: take the most capable one.
        engine = list(engines)[-1]
        only = estimate_of(facts, engine)
        reason = f"{say_size(facts)}: {engine}, since no larger backend is available ({unfit[engine]})"
        return Choice(engine, reason, only, (only,))
    ordered = _ordered(
        [
            estimate_of(facts, engine, inventory=inventory)
            for engine, inventories in engines.items()
            for inventory in inventories
            if engine not in unfit
        ]
    )
    chosen = _fast_enough(ordered)
    return Choice(chosen.engine, _reason(facts, chosen, ordered, unfit), chosen, tuple(ordered), chosen.inventory)


def _available(facts: Facts) -> dict[Engine, tuple[bool, ...]]:
    """Return the available backends, the least capable first; for each whether it lists, or may read an inventory."""
    inventory = facts.inventory
    is_worth_it = inventory is not None and inventory.is_fresh and facts.objects >= MIN_INVENTORY_OBJECTS
    ways = (False, True) if is_worth_it else (False,)
    found: dict[Engine, tuple[bool, ...]] = {"local": ways}
    if facts.has_fan_out:
        found["lambda"] = (False,)
    if facts.spark is not None:
        found["spark"] = ways
    return found


def _why_unfit(facts: Facts, engine: Engine) -> str | None:
    """Return why a backend cannot run the scan."""
    if engine == "lambda" and facts.objects > MAX_LAMBDA_OBJECTS:
        return f"functions take {say_count(MAX_LAMBDA_OBJECTS)} objects at most"
    if engine == "local":
        memory_mib, seconds = local_mib(facts), local_estimate(facts).seconds
        if memory_mib > facts.local.memory_mib * COMFORTABLE:
            return f"one process would take {memory_mib:.0f} MiB of {facts.local.memory_mib}"
        if seconds > facts.local.seconds * COMFORTABLE:
            return f"one process would take {say_seconds(seconds)} of {say_seconds(facts.local.seconds)}"
    return None


def _ordered(found: list[Estimate]) -> list[Estimate]:
    """Return the estimates, cheapest first. Estimates as cheap as the first keep their order."""
    least = min(each.usd for each in found)
    alike = [each for each in found if each.usd < least + SAME_USD]
    others = [each for each in found if each not in alike]
    return alike + sorted(others, key=lambda each: (each.usd, each.seconds))


def _fast_enough(ordered: list[Estimate]) -> Estimate:
    cheapest = ordered[0]
    faster = [
        each
        for each in ordered
        if each.seconds * FAR_LONGER < cheapest.seconds and cheapest.seconds - each.seconds > WORTH_S
    ]
    return faster[0] if faster else cheapest


def _reason(facts: Facts, chosen: Estimate, ordered: list[Estimate], unfit: Mapping[Engine, str]) -> str:
    why = []
    if chosen is not ordered[0]:
        why.append(f"{ordered[0].name} costs less and would take {say_seconds(ordered[0].seconds)}")
    elif len(ordered) > 1 and ordered[1].usd >= chosen.usd + SAME_USD:
        why.append(f"{ordered[1].name} would cost {say_usd(ordered[1].usd)}")
    elif len(ordered) > 1:
        why.append("it fits, and no other saves a cent")
    else:
        why.append("it fits")
    why += unfit.values()
    inventory = facts.inventory
    if inventory is not None and not chosen.inventory:
        why.append(_why_no_inventory(facts, inventory, chosen))
    return f"{say_size(facts)}: {chosen.name}" + (f", since {'; '.join(why)}" if why else "")


def _why_no_inventory(facts: Facts, inventory: InventoryFacts, chosen: Estimate) -> str:
    hours = round(inventory.age_ms / 3_600_000)
    if not inventory.is_fresh:
        return f"the inventory is {hours} h old"
    if facts.objects < MIN_INVENTORY_OBJECTS:
        return f"an inventory pays from {say_count(MIN_INVENTORY_OBJECTS)} objects on"
    return "the inventory would not save enough" if chosen.engine != "lambda" else "functions read no inventory"


def say_size(facts: Facts) -> str:
    """Return the number of objects of a table, and the source of this number."""
    return f"{say_count(facts.objects)} objects ({SAID_FROM[facts.objects_from]})"


def say_count(count: int) -> str:
    """Return a number with spaces between its thousands."""
    return f"{count:,}".replace(",", " ")


def say_seconds(seconds: float) -> str:
    """Return a duration in the unit that fits."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def say_usd(usd: float) -> str:
    """Return an amount with two significant digits, at most four decimals."""
    digits = 2 if usd >= 1 else 3 if usd >= 0.1 else 4
    return f"{usd:.{digits}f} USD"
