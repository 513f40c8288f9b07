//! Calendar dates to Unix time.

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March here, so that leap days come last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// Unix seconds from an MC146818's registers: seconds, minutes, hours, day, month, year, century; and its status B. `None`
/// when they are no date.
pub fn from_cmos(fields: [u8; 7], status_b: u8) -> Option<u64> {
    const HOURS_24: u8 = 1 << 1;
    const BINARY: u8 = 1 << 2;
    const AFTERNOON: u8 = 1 << 7;
    let number = |field: u8| {
        let value = if status_b & BINARY != 0 { field } else { (field >> 4) * 10 + (field & 15) };
        u64::from(value)
    };
    let [second, minute, hour, day, month, year, century] = fields;
    let afternoon = status_b & HOURS_24 == 0 && hour & AFTERNOON != 0;
    let mut hours = number(hour & !AFTERNOON);
    if status_b & HOURS_24 == 0 {
        hours = hours % 12 + if afternoon { 12 } else { 0 };
    }
    // Chips without a century register show something else there.
    let century = Some(number(century)).filter(|c| (19..=21).contains(c)).unwrap_or(20);
    let (year, month, day) = (century * 100 + number(year), number(month), number(day));
    let sane = (1970..2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hours < 24
        && number(minute) < 60
        && number(second) < 61;
    sane.then(|| ((days(year, month, day) * 24 + hours) * 60 + number(minute)) * 60 + number(second))
}

#[cfg(test)]
mod tests {
    use super::from_cmos;

    #[test]
    fn known_dates() {
        assert_eq!(from_cmos([0, 0, 0, 1, 1, 70, 19], 6), Some(0));
        // 2026-11-30 13:37:50 UTC, in BCD and in binary.
        assert_eq!(from_cmos([0x50, 0x37, 0x13, 0x30, 0x11, 0x26, 0x20], 2), Some(1_796_045_870));
        assert_eq!(from_cmos([50, 37, 13, 30, 11, 26, 20], 6), Some(1_796_045_870));
        // The same with a 12-hour clock; and a chip whose century register holds something else.
        assert_eq!(from_cmos([50, 37, 1 | 0x80, 30, 11, 26, 20], 4), Some(1_796_045_870));
        assert_eq!(from_cmos([50, 37, 13, 30, 11, 26, 0xff], 6), Some(1_796_045_870));
        // Leap day.
        assert_eq!(from_cmos([0, 0, 0, 29, 2, 24, 20], 6), Some(1_709_164_800));
        assert_eq!(from_cmos([0, 0, 0, 1, 3, 24, 20], 6), Some(1_709_251_200));
    }

    #[test]
    fn nonsense_is_no_date() {
        assert_eq!(from_cmos([0xff; 7], 6), None);
        assert_eq!(from_cmos([0; 7], 6), None);
        assert_eq!(from_cmos([0, 0, 24, 1, 1, 26, 20], 6), None);
    }
}
