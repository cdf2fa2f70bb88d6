"""The HTML loader: the main text of a page as Markdown, and nothing of what stands around it.

Inner part, on no face: ``tellback.memory.documents.loaders.html``.
"""

from __future__ import annotations

import random

import pytest

from tellback.memory.documents.loaders.html import read_html


def loaded(page: str | bytes):
    return read_html(page if isinstance(page, bytes) else page.encode(), "page.html")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h1>Trees</h1><p>Oaks &amp; <b>elms</b>\n grow.<p>Slowly.", "# Trees\n\nOaks & elms grow.\n\nSlowly."),
        ("<ul><li>one<li>two<ul><li>inner</ul></ul>", "- one\n- two\n  - inner"),
        ("<ol start=3><li><p>a</p><pre>x</pre><li>b</ol>", "3. a\n\n   ```\n   x\n   ```\n4. b"),
        ("<pre class='language-sh'>ls  -l\n# not a heading</pre>", "```sh\nls  -l\n# not a heading\n```"),
        ("<p>Run <code>ls -l</code>, then <kbd>q</kbd>.", "Run `ls -l`, then `q`."),
        ("<p># no heading<br>-----", "\\# no heading\n\\-----"),
        ("<blockquote><p>To be<p>or not</blockquote>", "> To be\n>\n> or not"),
        ("<dl><dt>oak<dd>a tree<dt>elm<dd><p>also</p><p>a tree</p></dl>", "oak: a tree\n\nelm: also\n\na tree"),
        (
            "<table><tr><th>tree<th>age</tr><tr><td rowspan=2>oak | elm<td>9<tr><td><p>10</p></table>",
            "| tree | age |\n|---|---|\n| oak \\| elm | 9 |\n| oak \\| elm | 10 |",
        ),
        ("<table><tr><td><img src=x><td><h2>Note</h2><p>Text.</table>", "## Note\n\nText."),
        ("<p>A fact.<sup>[3]</sup> <a class=headerlink href=#x>¶</a></p>", "A fact."),
        ("<div>loose <span>words <div>and a block</div> after</span></div>", "loose\n\nwords\n\nand a block\n\nafter"),
    ],
)
def test_a_page_becomes_markdown(page, text):
    assert loaded(page).text == text


@pytest.mark.parametrize(
    "furniture",
    [
        "<nav><p>Menu of everything.</nav>",
        "<div role=navigation><p>Menu.</div>",
        "<header><p>Site name.</header>",
        "<footer><p>Copyright.</footer>",
        "<div class='sidebar left'><p>Aside.</div>",
        "<div id=site-footer><p>Imprint.</div>",
        "<div class=navheader><table><tr><td>Chapter<td>Next</table></div>",
        "<p><a href=a>Prev</a> <a href=b>Up</a> | <a href=c>Next</a></p>",
        "<ul><li><a href=a>Products</a><li><a href=b>About us</a></ul>",
        "<p hidden>Hidden.",
        "<p style='color: red; DISPLAY: none'>Hidden.",
        "<p aria-hidden=true>Hidden.",
        "<script>alert('x') </script>",
        "<style>p { color: red }</style><noscript>Turn it on.</noscript><template>Later.</template>",
        "<svg><text>Picture.</text></svg><button>Send</button><select><option>One</select>",
        "<!-- <p>a comment</p> -->",
    ],
)
@pytest.mark.parametrize(
    "place", ["{furniture}<h1>Trees</h1><p>Oaks grow.", "<h1>Trees</h1><p>Oaks grow.</p>{furniture}"]
)
def test_navigation_furniture_and_hidden_parts_are_left_out(furniture, place):
    assert loaded(place.format(furniture=furniture)).text == "# Trees\n\nOaks grow."


def test_prose_in_an_element_named_like_navigation_is_text():
    box = "<div class=sidebar><p><b>TIP</b> Water them early: " + "the soil is cool then and keeps what it gets. " * 3
    assert "TIP Water them early" in loaded(f"<h1>Trees</h1><p>Oaks.</p>{box}</div><p>Elms.").text


def test_a_title_outside_of_a_head_is_no_text():
    assert loaded("<title>Pumps</title><h1>Pump</h1><p>Old.").text == "# Pump\n\nOld."


def test_only_the_main_element_of_a_page_is_read():
    assert (
        loaded("<div>Around it.</div><main><header><h1>Trees</h1></header><p>Oaks.</main>").text == "# Trees\n\nOaks."
    )


def test_a_page_of_nothing_but_links_keeps_them():
    assert "Products" in loaded("<ul class=menu><li><a href=a>Products</a><li><a href=b>About us</a></ul>").text


def test_a_page_gives_its_title_fields_and_anchors():
    page = loaded(
        "<head><title>Trees — My site</title><meta name=author content=Ada></head>"
        "<section id=trees><h1>Trees</h1><p>Old.<h2><a name=oaks></a>Oaks</h2><p>Grow."
    )
    assert (page.title, dict(page.metadata)) == ("Trees", {"author": "Ada"})
    assert [(page.text[offset:][:7], name) for offset, name in page.anchors] == [
        ("# Trees", "trees"),
        ("## Oaks", "oaks"),
    ]


@pytest.mark.parametrize(
    "page",
    [
        "<p>Größe".encode(),
        '<meta charset="iso-8859-2"><p>Gr\xf6\xdfe'.encode("latin-1"),
        "<p>Gr\xf6\xdfe, in a page that is longer than this".encode("cp1252"),
        "\ufeff<p>Größe".encode("utf-16-le"),
    ],
)
def test_the_encoding_of_a_page_is_recognised(page):
    assert loaded(page).text.startswith("Größe")


@pytest.mark.parametrize(
    "page", ["<div>" * 3_000 + "deep", "<p><b>" * 3_000 + "x", "<table><tr><td>" * 2_000 + "in", "<", "&" * 9999]
)
def test_deeply_nested_and_broken_pages_are_read(page):
    assert loaded(page).text.endswith(page[-2:].strip(">"))


def test_any_sequence_of_tags_gives_a_text():
    choice = random.Random(7).choice
    parts = [
        "<p>",
        "</p>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<li>",
        "<ul>",
        "</ul>",
        "<pre>",
        "</pre>",
        "<dt>",
        "<dd>",
        "a b",
        "<h2>",
        "</h2>",
        "<br>",
        "<a id=x>",
        "</a>",
        "<script>",
        "</script>",
    ]
    for _ in range(300):
        page = loaded("".join(choice(parts) for _ in range(30)))
        assert all(0 <= offset <= len(page.text) for offset, _ in page.anchors)
        assert "\ue000" not in page.text
