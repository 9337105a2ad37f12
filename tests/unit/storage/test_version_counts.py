"""Versions are counted as botocore parses them, whatever a page looks like."""

from typing import Any

import pytest
from botocore.parsers import create_parser
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.version_counts import PARSE_EVENT, counted, counting, parse_response
from lakesweep.storage.versions import Noncurrent
from tests.support.s3_server import moto_client, moto_store, versioned_bucket

HEAD = '<?xml version="1.0" encoding="UTF-8"?><ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
MODEL = Session().get_service_model("s3").operation_model("ListObjectVersions")
OWNER = "<Owner><ID>1</ID><DisplayName>Version</DisplayName></Owner>"
TIME = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"

elements = st.one_of(
    st.builds(
        lambda latest, size, key: (
            f"<Version><Key>{key}</Key><IsLatest>{latest}</IsLatest>{TIME}<Size>{size}</Size>{OWNER}</Version>"
        ),
        st.sampled_from(("true", "false")),
        st.integers(0, 1 << 60),
        st.sampled_from(("a", "a\nb", "&lt;Version&gt;", "x &amp; y", "%3CVersion%3E", "é")),
    ),
    st.sampled_from(
        (
            f"<DeleteMarker><Key>a</Key>{TIME}<IsLatest>false</IsLatest></DeleteMarker>",
            f"<DeleteMarker><Key>a</Key>{TIME}<IsLatest>true</IsLatest>{OWNER}</DeleteMarker>",
            f"<Version >{TIME}<Key>a</Key><IsLatest>false</IsLatest><Size>7</Size></Version>",
            f"<Version>{TIME}<Key>a</Key><IsLatest> false </IsLatest><Size>9</Size></Version>",
            f"<Version>{TIME}<Key>a</Key><IsLatest>false</IsLatest><Size>\n11\n</Size></Version>",
            "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>",
            "\n  ",
        )
    ),
)


def page_of(body: str, *, counts: bool) -> Any:
    """Return what botocore makes of a body, with our handler before it."""
    response: dict[str, Any] = {"body": body.encode(), "status_code": 200, "headers": {}}
    more: dict[str, Any] = {}
    if counts:
        with counting():
            parse_response(response, more)
    else:
        parse_response(response, more)
    return create_parser("rest-xml").parse(response, MODEL.output_shape) | more


@given(st.lists(elements, max_size=8), st.booleans())
def test_any_page(found: list[str], is_truncated: bool) -> None:
    """Elements of the usual form and of others, in any order."""
    ends = f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
    body = f"{HEAD}{ends}{''.join(found)}</ListVersionsResult>"
    whole, quick = page_of(body, counts=False), page_of(body, counts=True)
    assert counted(quick) == counted(whole)
    assert (quick["IsTruncated"], quick["NextKeyMarker"]) == (is_truncated, "k")
    assert len(whole.get("Versions", ())) == sum(each.startswith("<Version") for each in found)


@pytest.mark.parametrize("hidden", ["<!-- {} -->", "<![CDATA[{}]]>"])
def test_what_only_looks_like_an_element(hidden: str) -> None:
    """A page with a comment or the like is left to botocore."""
    element = "<Version><Key>a</Key><IsLatest>false</IsLatest><Size>7</Size></Version>"
    body = f"{HEAD}{hidden.format(element)}{element}<IsTruncated>false</IsTruncated></ListVersionsResult>"
    assert counted(page_of(body, counts=True)) == Noncurrent(1, 7, 0)


def test_others_get_every_version() -> None:
    """Only a caller that counts gets a page without elements, and only while it counts."""
    bucket = versioned_bucket()
    store = moto_store("t", bucket=bucket)
    for body in (b"1", b"22", b"333"):
        store.put("a", body)
    moto_client().delete_object(Bucket=bucket, Key="t/a")
    assert store.noncurrent() == Noncurrent(3, 6, 1)
    pages = store.object_versions()
    assert pages is not None
    assert sorted(each.size_bytes for page in pages for each in page) == [1, 2, 3]
    assert PARSE_EVENT.endswith("ListObjectVersions")
