"""The statistics of a benchmark: what one sample says, and what two that were taken in pairs say about a ratio.

CI99 is the confidence interval of the mean, mean +- t s/sqrt(n); PI99 is the interval in which one more run is to be expected,
mean +- t s sqrt(1 + 1/n), both with Student's t for n-1 degrees of freedom.

The ratio's interval is that of the paired t statistic on logarithms: runs are made A B B A, each A with the B beside it, and
the mean of ln(A/B), with its interval, is carried back by exp. Drift of the host that both of a pair share cancels, rates are
nearer to log-normal than to normal (they are bounded by 0 and errors multiply), and it holds for the small n of a benchmark,
where a bootstrap's intervals are too narrow (Hesterberg, What Teachers Should Know About the Bootstrap, section 4). Kalibera and
Jones (Quantifying Performance Changes with Effect Size Confidence Intervals, 2013) give the case for reporting a ratio with
its interval at all; their own, Fieller's, is for unpaired means.
"""
import dataclasses
import math
import statistics

LEVEL = 0.99


def t_within(t, degrees):
    """P(|T| < t) for Student's T: Abramowitz and Stegun, 26.7.3 and 26.7.4, which are exact for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    # The series in powers of the cosine: odd degrees begin at the first power, even ones at the zeroth.
    power, total = (cosine, 0.0) if degrees % 2 else (1.0, 0.0)
    for k in range(1 + degrees % 2, degrees, 2):
        total += power
        power *= cosine * cosine * k / (k + 1)
    if degrees % 2:
        return 2 / math.pi * (angle + sine * total)
    return sine * total


def t_quantile(degrees, level=LEVEL):
    """The t with P(|T| < t) = level."""
    low, high = 0.0, 1.0
    while t_within(high, degrees) < level:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, degrees) < level else (low, middle)
    return (low + high) / 2


@dataclasses.dataclass
class Summary:
    """One sample. The intervals are (low, high), or None for a single value."""
    n: int
    mean: float
    median: float
    sd: float
    ci99: tuple
    pi99: tuple

    @property
    def cv(self):
        """Coefficient of variation: the standard deviation as a share of the mean."""
        return self.sd / self.mean if self.mean else 0.0


def summary(values):
    """The Summary of one or more values."""
    n, mean = len(values), statistics.fmean(values)
    if n < 2:
        return Summary(n, mean, mean, 0.0, None, None)
    sd, t = statistics.stdev(values), t_quantile(n - 1)
    around = lambda half: (mean - half, mean + half)  # noqa: E731
    return Summary(n, mean, statistics.median(values), sd, around(t * sd / math.sqrt(n)), around(t * sd * math.sqrt(1 + 1 / n)))


@dataclasses.dataclass
class Ratio:
    """How many times as good A is as B: the ratio of medians, and the interval of the mean ratio (None for a single pair)."""
    medians: float
    mean: float
    interval: tuple

    @property
    def differs(self):
        """Whether a difference was shown: 1 is outside the interval. A single pair shows nothing."""
        return self.interval is not None and not self.interval[0] <= 1 <= self.interval[1]


def ratio(ours, theirs, better="more"):
    """The Ratio of two samples taken in pairs. With better="less" (times, costs) it is turned over, so that more than 1 is
    always in favour of `ours`. None where a value is not above 0."""
    if better == "less":
        ours, theirs = theirs, ours
    if len(ours) != len(theirs) or not ours:
        raise ValueError("pairs are needed: %d and %d values" % (len(ours), len(theirs)))
    if min(*ours, *theirs) <= 0:
        return None
    logs = [math.log(a / b) for a, b in zip(ours, theirs)]
    medians, mean = statistics.median(ours) / statistics.median(theirs), statistics.fmean(logs)
    if len(logs) < 2:
        return Ratio(medians, math.exp(mean), None)
    half = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(medians, math.exp(mean), (math.exp(mean - half), math.exp(mean + half)))
