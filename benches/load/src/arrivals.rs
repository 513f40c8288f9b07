//! When an open loop's requests are meant to be sent.

use crate::options::Arrivals;

/// The times of one request after another, in ns since the schedule's beginning.
pub struct Schedule {
    gap_ns: f64,
    arrivals: Arrivals,
    rng: fastrand::Rng,
    next_ns: f64,
}

impl Schedule {
    /// `rate` requests a second.
    pub fn new(rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        let mut made =
            Self { gap_ns: 1e9 / rate, arrivals, rng: fastrand::Rng::with_seed(seed ^ 0xa441), next_ns: 0.0 };
        made.advance();
        made
    }

    /// When the next request is meant to be sent.
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Goes on to the request after it.
    pub fn advance(&mut self) {
        self.next_ns += match self.arrivals {
            Arrivals::Fixed => self.gap_ns,
            // 1 - f64() is never 0.
            Arrivals::Poisson => -(1.0 - self.rng.f64()).ln() * self.gap_ns,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals) -> Vec<f64> {
        let mut schedule = Schedule::new(1000.0, arrivals, 7);
        let mut last = 0;
        (0..20_000)
            .map(|_| {
                let at = schedule.next_ns();
                schedule.advance();
                let gap = (at - last) as f64 / 1e6;
                last = at;
                gap
            })
            .collect()
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gaps = gaps(Arrivals::Poisson);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.05 && (deviation - 1.0).abs() < 0.05, "{mean} {deviation}");
        let long = gaps.iter().filter(|&&gap| gap > 2.0).count() as f64 / gaps.len() as f64;
        assert!((long - (-2.0f64).exp()).abs() < 0.02, "{long}");
    }

    #[test]
    fn fixed_gaps_are_fixed() {
        assert!(gaps(Arrivals::Fixed).iter().all(|gap| (gap - 1.0).abs() < 1e-5));
    }
}
