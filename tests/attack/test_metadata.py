"""Metadata that lies: lists, manifests, schemas, tags and branches that name what is not theirs, in every operation."""

import random

import pytest

from tests.attack.metadata import THOROUGH, attack_all, built_world
from tests.attack.metadata_lies import ABSURD, DOCUMENTS, LIES, OPTIONS, PASSES, PLACES, SCHEMAS, WORLD, with_schema


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("lie", LIES)
def test_a_root_that_names_what_is_not_its_own(lie: str, place: str) -> None:
    world = built_world(WORLD)
    files, fields = LIES[lie](world)
    attack_all(world, {**files, **PLACES[place](world, fields)}, lie + place)


# Schemas.


@pytest.mark.parametrize("option", OPTIONS)
def test_absurd_options(option: str) -> None:
    """Whatever a schema says: an answer, and no file that a root needs."""
    world = built_world(WORLD)
    values = ABSURD if THOROUGH else random.Random(option).sample(ABSURD, 4)
    for value in values:
        for always in PASSES if THOROUGH else (random.Random(option + value).choice(PASSES),):
            attack_all(world, with_schema(world, options={option: value}), option + value, (always,))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_that_lie(schema: str) -> None:
    world = built_world(WORLD)
    attack_all(world, with_schema(world, **dict(SCHEMAS[schema])), schema, PASSES)


# Documents beside the roots.


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents_that_lie(what: str) -> None:
    world = built_world(WORLD)
    attack_all(world, DOCUMENTS[what], what, ("expire-snapshots", "maintain"))


def test_a_tag_of_a_table_that_is_not_there() -> None:
    """Its lists are names that nothing has; nothing that others need goes for it."""
    world = built_world(WORLD)
    nowhere = dict.fromkeys(("baseManifestList", "deltaManifestList"), "manifest-list-of-another-table")
    for place, of in PLACES.items():
        attack_all(world, of(world, nowhere), place, PASSES)
