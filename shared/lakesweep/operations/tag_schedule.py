"""`trigger_tag_automatic_creation`: make the tags that are due and expire those that are over, without a commit."""

from lakesweep.model.report import RunReport
from lakesweep.operations.auto_tags import AutoTagArguments
from lakesweep.operations.context import Table

OPERATION = "trigger_tag_automatic_creation"


def trigger_tags(table: Table, arguments: AutoTagArguments, *, execute: bool) -> RunReport:
    """Make due tags, then expire tags: two steps."""
    raise NotImplementedError
