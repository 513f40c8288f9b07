//! The listpack against a vector of strings, and its bytes against Redis's.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn texts(lp: &Listpack) -> Vec<Vec<u8>> {
    lp.iter().map(Entry::to_vec).collect()
}

fn check(lp: &Listpack, model: &[Vec<u8>]) {
    assert_eq!(texts(lp), model);
    assert_eq!(lp.len(), model.len());
    let mut back: Vec<_> = lp.iter().rev().map(Entry::to_vec).collect();
    back.reverse();
    assert_eq!(back, model);
    assert_eq!(validate(lp.as_bytes()), Ok(model.len() as u32));
}

#[test]
fn bytes_are_those_of_redis() {
    let mut lp = Listpack::new();
    assert_eq!(lp.as_bytes(), [7, 0, 0, 0, 0, 0, 0xFF]);
    for s in ["a", "127", "128", "-1", "4096", "-32769", "2147483648", "8388607"] {
        lp.push_back(s.as_bytes());
    }
    let expected = [
        &[0x81, b'a', 2][..],
        &[0x7F, 1],
        &[0xC0, 0x80, 2],
        &[0xDF, 0xFF, 2],
        &[0xF1, 0x00, 0x10, 3],
        &[0xF2, 0xFF, 0x7F, 0xFF, 4],
        &[0xF4, 0, 0, 0, 0x80, 0, 0, 0, 0, 9],
        &[0xF2, 0xFF, 0xFF, 0x7F, 4],
    ]
    .concat();
    assert_eq!(lp.entries().bytes(), expected);
    assert_eq!(lp.as_bytes()[..6], [expected.len() as u8 + 7, 0, 0, 0, 8, 0]);
    check(&lp, &["a", "127", "128", "-1", "4096", "-32769", "2147483648", "8388607"].map(|s| s.as_bytes().to_vec()));
}

#[test]
fn every_width_survives() {
    let mut lp = Listpack::new();
    let mut model = Vec::new();
    for shift in 0..64 {
        for v in [1i64.wrapping_shl(shift), 1i64.wrapping_shl(shift).wrapping_sub(1), (-1i64).wrapping_shl(shift)] {
            lp.push_back(v.to_string().as_bytes());
            model.push(v.to_string().into_bytes());
        }
    }
    for len in [0, 1, 63, 64, 126, 127, 128, 4095, 4096, 16_379, 16_380, 16_381, 16_382, 70_000, 2_100_000] {
        lp.push_back(&vec![b'x'; len]);
        model.push(vec![b'x'; len]);
    }
    check(&lp, &model);
}

#[test]
fn random_edits_match_a_vector() {
    let mut seed = 1u64;
    let mut random = move |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    for round in 0..60 {
        let mut lp = Listpack::new();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for _ in 0..400 {
            let element = match random(4) {
                0 => format!("{}", random(300)).into_bytes(),
                1 => format!("-{}", random(1 << 30)).into_bytes(),
                2 => vec![b'a' + random(26) as u8; random(70)],
                _ => vec![b'z'; random(if round % 10 == 0 { 5000 } else { 9 })],
            };
            let at = random(model.len() + 1);
            let pos = lp.seek(at as isize).unwrap_or(lp.end());
            match random(9) {
                0 => {
                    lp.push_front(&element);
                    model.insert(0, element);
                }
                1 | 2 => {
                    lp.push_back(&element);
                    model.push(element);
                }
                3 => {
                    lp.insert(pos, &element);
                    model.insert(at, element);
                }
                4 if at < model.len() => {
                    lp.replace(pos, &element);
                    model[at] = element;
                }
                5 if at < model.len() => {
                    lp.delete(pos);
                    model.remove(at);
                }
                6 if !model.is_empty() && random(3) == 0 => {
                    let n = random(6);
                    assert_eq!(lp.delete_range(at as isize, n), n.min(model.len() - at));
                    model.drain(at..(at + n).min(model.len()));
                }
                7 => {
                    lp.pop_front();
                    model.drain(..model.len().min(1));
                    if random(2) == 0 {
                        lp.pop_back();
                        model.pop();
                    }
                }
                8 if random(20) == 0 => {
                    let tail = lp.split_off(at);
                    check(&tail, &model[at..]);
                    check(&lp, &model[..at]);
                    lp.append(&tail);
                }
                _ => {
                    let found = lp.first().and_then(|p| lp.find(p, &element, 1));
                    let index = model.iter().position(|m| *m == element);
                    assert_eq!(found, index.and_then(|i| lp.seek(i as isize)));
                }
            }
            assert!(lp.buf.len() <= 64.max(lp.byte_len() * 2 + 16), "spare room is bounded");
        }
        check(&lp, &model);
        let again = Listpack::from_bytes(lp.as_bytes().to_vec());
        assert!(again.is_ok_and(|l| texts(&l) == model));
    }
}

#[test]
fn pushes_at_both_ends_move_little() {
    // Counted by what the buffer does: a push at the head must find room in front nearly always.
    let mut lp = Listpack::new();
    let mut moves = 0;
    for i in 0..2000 {
        let before = (lp.head, lp.buf.len());
        lp.push_front(b"xyz");
        moves += usize::from(lp.buf.len() != before.1 && i > 100);
    }
    assert!(moves < 60, "{moves} reallocations");
}

#[test]
fn more_entries_than_the_header_counts() {
    let mut lp = Listpack::new();
    for _ in 0..70_000 {
        lp.push_back(b"1");
    }
    assert_eq!(lp.as_bytes()[4..6], [0xFF, 0xFF]);
    assert_eq!(lp.len(), 70_000);
    lp.delete_range(100, 60_000);
    assert_eq!(lp.as_bytes()[4..6], 10_000u16.to_le_bytes());
    assert!(Listpack::from_bytes(lp.as_bytes().to_vec()).is_ok());
}

#[test]
fn damaged_bytes_are_refused() {
    let mut lp = Listpack::new();
    for s in ["hello", "12", "99999", "x"] {
        lp.push_back(s.as_bytes());
    }
    lp.push_back(&[b'q'; 300]);
    let good = lp.as_bytes().to_vec();
    for cut in 0..good.len() {
        assert!(Listpack::from_bytes(good[..cut].to_vec()).is_err());
    }
    for at in 0..good.len() {
        for value in 0..=255 {
            let mut bad = good.clone();
            bad[at] = value;
            // Whatever passes must be walkable both ways without a panic.
            if let Ok(lp) = Listpack::from_bytes(bad) {
                assert_eq!(lp.iter().count(), lp.iter().rev().count());
            }
        }
    }
    let mut huge = vec![16, 0, 0, 0, 1, 0, 0xF0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF];
    assert!(Listpack::from_bytes(huge.clone()).is_err());
    huge[6] = 0xF8;
    assert!(Listpack::from_bytes(huge).is_err());
}
