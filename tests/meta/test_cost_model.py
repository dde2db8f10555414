"""The cost model has sources, few fitted constants, and agrees with published microbenchmarks."""

import re

import pytest
from load_tool import ROOT
from poptorch_core import _core

from benchmarks.fidelity import __main__ as command, fit, micro, predict, rows, statistics

CORE = ROOT / "poptorch_cpp"
FOLDERS = ("account", "lowering", "partition", "program", "target")
MODELS = re.compile(
    r"\b(bert|resnet|vit|efficientnet|swin|unet|conformer|gpt|dino|dalle|mlperf)\w*", re.IGNORECASE
)
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def test_every_constant_has_a_source_and_few_are_fitted():
    constants = _core.cost_constants()
    assert len({name for name, *_ in constants}) == len(constants)
    for name, value, unit, source, _ in constants:
        assert value > 0 and unit and len(source) > 20, name
    assert sum(fitted for *_, fitted in constants) <= 15


def test_the_cost_model_does_not_depend_on_the_name_of_a_model():
    for folder in FOLDERS:
        for path in sorted((CORE / folder).rglob("*.?pp")):
            text = re.sub(r"//.*", "", path.read_text())
            if path.name == "constants.cpp":  # its texts name the sources
                text = STRINGS.sub('""', text)
            assert not MODELS.search(text), path


# Names of serial algorithms in generic ops, and those of these that are not.
SERIAL = re.compile(r"linalg_|cholesky|cum|ctc|lu|qr|triangular|median|mode|kthvalue")
NOT_SERIAL = {"linalg_cross", "linalg_matrix_exp", "lu_unpack",
              "_unsafe_masked_index_put_accumulate"}  # fmt: skip


def test_generic_ops_with_serial_algorithms_have_steps():
    page = (ROOT / "docs" / "torch-ops.md").read_text()
    generic = {name for name in re.findall(r"`(\w+)\.(?!\w*\.)\w+`", page) if SERIAL.search(name)}
    table = set(re.findall(r'\{"(\w+)", ', (CORE / "ops" / "serial.cpp").read_text()))
    assert "ctc_loss" in generic
    assert not generic - table - NOT_SERIAL


def test_an_unknown_constant_cannot_be_replaced():
    sizes = {"width": 16, "inner": 16, "outer": 16}
    message = "does not have a constant 'luck'. It has sync, launch, "
    with pytest.raises(_core.Error, match=message):
        _core.contraction_cost("ipu2", sizes, True, {"luck": 1.0})
    with pytest.raises(_core.Error, match=message):
        _core.replace_constant("luck", 1.0)


@pytest.mark.parametrize("size", [{"depth": 4}, {"inner": 0}])
def test_a_product_with_unknown_or_empty_sizes_is_refused(size):
    with pytest.raises(_core.Error, match="a product cannot have"):
        _core.contraction_cost("ipu2", size, True)


def test_an_unknown_device_is_refused_with_the_known_ones():
    with pytest.raises(_core.Error, match="no device is named 'ipu9'. The known ones are ipu1, "):
        _core.device_figures("ipu9")


def test_the_fit_compiles_no_marked_row(monkeypatch):
    compiled, replaced = [], []

    def predicted(row):
        compiled.append(row)
        return predict.Prediction(row, 2 * row.published, "", 0.0)

    monkeypatch.setattr(predict, "predict", predicted)
    monkeypatch.setattr(_core, "replace_constant", lambda *constant: replaced.append(constant))
    assert set(fit.training_times(2.0, 0.2)) == {0.5}
    assert compiled and not any(row.marked for row in compiled)
    assert replaced == [("element_factor", 2.0), ("streaming_efficiency", 0.2)]


def test_the_grid_finds_the_factor_and_the_efficiency_of_made_times():
    def times(factor, efficiency):
        return [0.2 + 0.1 * factor + 0.04 / efficiency, 0.1 + 0.2 * factor + 0.02 / efficiency]

    wanted = fit.FACTORS[60], fit.EFFICIENCIES[40]
    published = times(*wanted)
    measured = [
        [ours / theirs for ours, theirs in zip(times(*at), published, strict=True)]
        for at in ((2, 0.2), (2.5, 0.2), (2, 0.4))
    ]
    found, error = fit.best_of_grid(measured, 2, 0.2)
    assert found == wanted and error < 1e-9


def test_nine_tenths_of_the_microbenchmarks_are_within_a_fifth(capsys):
    assert command.main(["--micro"]) == 0
    printed = capsys.readouterr().out
    points = sum(len(points) for points in micro.families().values())
    assert f"of {points} within 20%" in printed


def test_a_row_is_predicted_from_its_program(capsys):
    assert command.main(["--rows", "14"]) == 0
    printed = capsys.readouterr().out
    assert "BERT-base phase 1" in printed and "1 of 1 within 25%" in printed


def test_twice_the_replicas_have_nearly_twice_the_throughput():
    row = next(row for row in rows.rows() if row.number == 24)
    one = predict.predict(row)
    two = predict.predict(type(row)(**{**vars(row), "replicas": 2 * row.replicas}))
    assert 1.9 * one.samples < two.samples <= 2 * one.samples


def test_long_pipelines_take_as_long_per_micro_batch_as_short_ones():
    row = next(row for row in rows.rows() if row.number == 25)
    rates = [
        predict.predict(type(row)(**{**vars(row), "accumulation": count})).samples
        for count in (64, 256, 300)
    ]
    assert max(rates) < 1.05 * min(rates)


def test_ranks_and_errors():
    assert statistics.mean_error([0.9, 1.2]) == pytest.approx(0.15)
    assert statistics.rank_correlation([(1, 10), (2, 20), (3, 30)]) == pytest.approx(1)
    assert statistics.rank_correlation([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1)
    assert statistics.rank_correlation([(1, 5), (1, 5)]) == 1
