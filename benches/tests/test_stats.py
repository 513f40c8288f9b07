"""Known numbers: tables of Student's t, and samples worked out by hand."""
import math

import pytest

import stats


@pytest.mark.parametrize("degrees, level, t", [
    # Abramowitz and Stegun, table 26.10.
    (1, 0.99, 63.657), (2, 0.99, 9.925), (3, 0.99, 5.841), (4, 0.99, 4.604), (5, 0.99, 4.032), (9, 0.99, 3.250), (10, 0.99, 3.169),
    (30, 0.99, 2.750), (120, 0.99, 2.617), (1, 0.95, 12.706), (4, 0.95, 2.776), (7, 0.5, 0.711)])
def test_t(degrees, level, t):
    assert stats.t_quantile(degrees, level) == pytest.approx(t, abs=6e-4)


def test_summary():
    one = stats.summary([2, 4, 4, 4, 5, 5, 7, 9])
    assert (one.n, one.mean, one.median) == (8, 5, 4.5)
    assert one.sd == pytest.approx(math.sqrt(32 / 7))
    assert one.cv == pytest.approx(math.sqrt(32 / 7) / 5)
    # t for 7 degrees of freedom is 3.499.
    half = 3.499 * math.sqrt(32 / 7)
    assert one.ci99 == pytest.approx((5 - half / math.sqrt(8), 5 + half / math.sqrt(8)), abs=2e-3)
    assert one.pi99 == pytest.approx((5 - half * math.sqrt(9 / 8), 5 + half * math.sqrt(9 / 8)), abs=2e-3)


def test_one_value_has_no_interval():
    one = stats.summary([3])
    assert (one.n, one.median, one.ci99, one.pi99) == (1, 3, None, None)
    assert not stats.ratio([6], [2]).differs and stats.ratio([6], [2]).medians == 3


def test_ratio_of_pairs():
    # ln(A/B) is ln 4 and ln 1: mean ln 2, standard deviation ln(4)/sqrt(2), t for 1 degree of freedom 63.657.
    found = stats.ratio([4, 3], [1, 3])
    assert found.medians == pytest.approx(3.5 / 2) and found.mean == pytest.approx(2)
    half = 63.657 * math.log(4) / 2
    assert found.interval == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)), rel=1e-3)
    assert not found.differs


def test_drift_that_both_share_cancels():
    ours, theirs = [100, 50, 200, 120], [20.1, 10, 39.9, 24]
    found = stats.ratio(ours, theirs)
    assert found.differs and 4.9 < found.interval[0] < 5 < found.interval[1] < 5.1
    # The same values in other pairs show nothing.
    assert not stats.ratio([50, 120, 100, 200], theirs).differs


def test_less_is_better_turns_it_over():
    assert stats.ratio([1, 1.1, 1], [2, 2.1, 2], "less").medians == 2
    assert stats.ratio([1, 1.1, 1], [2, 2.1, 2], "more").medians == 0.5


def test_no_ratio_of_what_is_not_above_zero_or_not_in_pairs():
    assert stats.ratio([0, 1], [1, 1]) is None
    with pytest.raises(ValueError):
        stats.ratio([1], [1, 2])
