"""Sessions cache compiled programs, as docs/executables.md describes."""

import numpy as np
import popxl
import popxl.ops as ops
import pytest


def program(factor=2.0):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        weight = popxl.variable(np.arange(6, dtype=np.float32), name="w")
        stored = popxl.d2h_stream((6,), popxl.float32, name="out")
        ops.host_store(stored, weight * factor)
        ops.var_updates.accumulate_(weight, weight)
    return ir, stored


def results(ir, stored):
    with popxl.Session(ir, "ipu_model") as session:
        return [session.run()[stored] for _ in range(2)]


def use(ir, folder):
    options = ir._pb_ir.getSessionOptions()
    options.enableEngineCaching, options.cachePath = True, str(folder)


def test_equal_programs_share_an_entry(tmp_path):
    folder = tmp_path / "cache"
    expected = results(*program())
    for _ in range(2):
        ir, stored = program()
        use(ir, folder)
        for got, wanted in zip(results(ir, stored), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert len(list(folder.iterdir())) == 1
    ir, stored = program(3.0)
    use(ir, folder)
    np.testing.assert_array_equal(results(ir, stored)[0], expected[0] * 1.5)
    assert len(list(folder.iterdir())) == 2


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("POPXL_CACHE_DIR", str(tmp_path / "cache"))
    ir, stored = program()
    options = ir._pb_ir.getSessionOptions()
    assert options.enableEngineCaching and options.cachePath == str(tmp_path / "cache")
    results(ir, stored)
    options.enableEngineCaching = False
    results(*program(5.0))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert not popxl.Ir()._pb_ir.getSessionOptions().partialsTypeMatMuls
    monkeypatch.delenv("POPXL_CACHE_DIR")
    assert not popxl.Ir()._pb_ir.getSessionOptions().enableEngineCaching


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    ir, stored = program()
    use(ir, folder)
    with pytest.raises(Exception, match="other users can write to"):
        results(ir, stored)
