"""The page in a real browser: sliders, links, addresses, light and dark, phones; numbers are those of the library."""

from __future__ import annotations

from typing import Any

import pytest

from explore.conftest import Visit
from foretrain.explore import picture

pytestmark = pytest.mark.slow


def cell(visit: Visit, row: str) -> str:
    return str(visit.page.locator("tr", has_text=row).first.locator("td").last.inner_text())


def test_a_slider_moved_by_keyboard_changes_picture_and_address(visit: Visit) -> None:
    visit.open("scan-snap")
    before = visit.text("#answer")
    slider = visit.page.get_by_label("η_Y, rate of the decoder")
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    visit.settled()
    assert visit.query.startswith("eta_y=")
    eta_y = float(visit.query.removeprefix("eta_y="))
    assert eta_y > 0.2
    assert visit.text("#answer") != before
    expected = picture("scan-snap", eta_y=eta_y)
    assert expected.answer in visit.text("#answer").replace("\n", " ")
    assert cell(visit, "flow of training") == dict(expected.tables[0].rows)["flow of training"]


def test_a_dragged_slider_and_a_dragged_bar(visit: Visit) -> None:
    visit.open("scan-snap?classes=3&vocab=60")
    for label, name in (("K, classes", "classes"), ("distinct 1", "profile")):
        slider = visit.page.get_by_label(label, exact=True)
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        mouse, x, y = visit.page.mouse, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        upright = box["height"] > box["width"]
        mouse.move(x, y)
        mouse.down()
        for k in range(1, 6):
            mouse.move(x + (0 if upright else 8 * k), y - (6 * k if upright else 0))
        mouse.up()
        visit.settled()
        assert f"{name}=" in visit.query
    state = dict(part.split("=") for part in visit.query.split("&"))
    assert int(state["classes"]) > 3
    bars = tuple(float(each) for each in state["profile"].split("%2C"))
    expected = picture("scan-snap", classes=int(state["classes"]), vocab=60, profile=bars)
    assert cell(visit, "flow of training") == dict(expected.tables[0].rows)["flow of training"]


def test_an_address_is_followed_and_what_is_wrong_in_it_is_said(visit: Visit) -> None:
    visit.open("scan-snap?eta_y=0.5&classes=99&hat=1")
    assert visit.page.get_by_label("η_Y, rate of the decoder").get_attribute("aria-valuetext").startswith("0.5")
    notes = visit.text("#refused")
    assert "classes must lie between 2 and 12" in notes
    assert "'hat'" in notes
    assert visit.query == "eta_y=0.5"


def test_first_paint_formulas_and_attention_that_is_played(visit: Visit) -> None:
    visit.open("scan-snap")
    math = visit.page.locator("math").first
    assert math.evaluate("node => node.namespaceURI") == "http://www.w3.org/1998/Math/MathML"
    assert math.bounding_box()["height"] > 20
    paints = []
    while len(paints) < 5 and min(paints, default=2000) >= 2000:  # other programs may be running
        visit.open("scan-snap")
        paints.append(visit.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    assert min(paints) < 2000
    step = visit.page.locator(".slider-label").first
    assert step.text_content() == "step 600"
    visit.page.locator(".updatemenu-button").click()
    visit.page.wait_for_function("document.querySelector('.slider-label').textContent !== 'step 600'")


def test_templates_that_are_typed_are_forecast(visit: Visit) -> None:
    visit.open("templates")
    visit.page.get_by_label("templates", exact=True).fill("ABA = 1\nABB = -1\n<i> = 1")
    visit.page.wait_for_selector("td:has-text('<i>')")
    visit.settled()
    expected = picture("templates", templates="ABA = 1\nABB = -1\n<i> = 1")
    assert expected.answer in visit.text("#answer")
    visit.page.get_by_text("copy the second symbol").click()
    visit.settled()
    assert visit.page.get_by_label("templates", exact=True).input_value() == "αβ = β"


def test_bad_templates_are_refused_on_the_page(visit: Visit) -> None:
    visit.open("templates?templates=nonsense")
    assert "Line 1 must be a template" in visit.text("#answer .notice")


def test_links_lead_to_a_claim_and_back(visit: Visit) -> None:
    visit.open("scan-snap")
    visit.page.get_by_role("link", name="scan_snap/theorem4", exact=True).click()
    visit.settled()
    assert "Verdict: fails" in visit.text("#picture")
    assert visit.page.url.endswith("/ledger?paper=all&claim=scan_snap%2Ftheorem4")
    assert visit.page.locator(".js-plotly-plot").count() >= 1
    visit.page.go_back()
    visit.settled()
    assert "Attention on the dominant distinct token" in visit.text("#answer")
    assert "/scan-snap" in visit.page.url


def test_filters_of_the_ledger(visit: Visit) -> None:
    visit.open("ledger")
    visit.page.get_by_label("verdict").select_option("holds")
    visit.settled()
    assert visit.page.locator("tbody tr").count() == 1
    assert "verdict=holds" in visit.query


def test_copy_as_python(visit: Visit) -> None:
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.open("scan-snap?eta_z=0.3")
    visit.page.get_by_role("button", name="Copy as Python").click()
    visit.page.wait_for_selector("text=Copied.")
    assert "picture('scan-snap', eta_z=0.3).show()" in visit.page.evaluate("navigator.clipboard.readText()")


def test_light_and_dark(browser: Any, visit: Visit) -> None:
    visit.page.emulate_media(color_scheme="dark")
    visit.open("scan-snap")
    ground = "node => getComputedStyle(node).backgroundColor"
    body, paper = visit.page.locator("body"), visit.page.locator(".main-svg").first
    assert body.evaluate(ground) == "rgb(21, 25, 30)" == paper.evaluate(ground)
    button = visit.page.get_by_role("button", name="Light/dark")
    button.click()
    visit.settled()
    assert body.evaluate(ground) == "rgb(255, 255, 255)" == paper.evaluate(ground)


def test_label_noise_lowers_the_forecast_and_too_long_a_path_is_refused(visit: Visit) -> None:
    visit.open("fine-tuning?noise=0.2")
    expected = picture("fine-tuning", noise=0.2)
    assert expected.answer in visit.text("#answer")
    assert cell(visit, "wrong labels") == "36 rows"
    visit.page.get_by_label("steps", exact=True).press("End")
    visit.page.get_by_label("learning rate", exact=True).press("End")
    visit.settled()
    assert "must sum to between" in visit.text("#answer .notice")


def test_a_run_from_the_folder_and_its_hostile_names(visit: Visit) -> None:
    visit.open("runs?run=one.jsonl&other=two.jsonl")
    assert "the other at 1.525" in visit.text("#answer")
    assert "layer <b>first</b>" in visit.text("#picture")
    assert visit.page.locator("#picture b").count() == 0
    visit.page.get_by_role("link", name="loss", exact=True).click()
    visit.settled()
    assert "quantity=loss" in visit.query
    visit.open("runs?run=../secret.jsonl")
    assert "run is one of one.jsonl" in visit.text("#refused")
    assert "0.123456" not in visit.page.content()


def test_pasted_texts_stay_out_of_the_address(visit: Visit) -> None:
    visit.open("corpus")
    visit.page.get_by_label("your texts").fill("a | one <i>two</i>\nb | three")
    visit.page.get_by_label("texts", exact=True).select_option("pasted texts")
    visit.settled(quiet=0.8)
    assert visit.query == "source=pasted+texts"
    assert "one <i>two</i>" in visit.text("#picture")
