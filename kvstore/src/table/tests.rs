use super::*;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use barium_cell::ThinBytes;

fn thin(s: &str) -> ThinBytes {
    ThinBytes::new(s.as_bytes()).unwrap()
}

fn check(t: &Table<ThinBytes>) {
    assert_eq!(t.directory.len(), if t.segments.is_empty() { 0 } else { 1 << t.depth });
    assert_eq!(t.len, t.segments.iter().map(|s| s.items.len()).sum::<usize>());
    assert_eq!(t.deepest as usize, t.segments.iter().filter(|s| s.depth == t.depth).count());
    for (i, s) in t.segments.iter().enumerate() {
        assert!(t.directory[t.slots(s)].iter().all(|&d| d as usize == i));
        for item in &s.items {
            assert_eq!(t.segment_of(t.hash(item.key())), Some(i));
        }
    }
}

#[test]
fn against_a_model() {
    let mut rng = Rng::new(1);
    let mut t = Table::new(Hashing::new(7));
    let mut model: BTreeMap<String, ()> = BTreeMap::new();
    for round in 0..6 {
        for _ in 0..8_000 {
            let key = format!("key{}", rng.below(12_000));
            let add = if round % 2 == 0 { rng.below(4) > 0 } else { rng.below(4) == 0 };
            if add {
                if !t.contains(key.as_bytes()) {
                    t.insert(thin(&key)).unwrap();
                }
                model.insert(key, ());
            } else {
                assert_eq!(t.remove(key.as_bytes()).is_some(), model.remove(&key).is_some());
            }
        }
        check(&t);
        assert_eq!(t.len(), model.len());
        assert!(model.keys().all(|k| t.get(k.as_bytes()).is_some()));
    }
    for k in model.keys() {
        t.remove(k.as_bytes()).unwrap();
    }
    check(&t);
    assert_eq!((t.len(), t.segments()), (0, 0));
}

#[test]
fn scan_returns_what_stays_once_while_the_table_changes() {
    let mut t = Table::new(Hashing::new(3));
    for i in 0..5_000 {
        t.insert(thin(&format!("stay{i}"))).unwrap();
    }
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let (mut cursor, mut step) = (0, 0);
    loop {
        let mut n = 0;
        cursor = t.scan(cursor, 10, |b| {
            n += 1;
            *seen.entry(String::from_utf8(b.as_bytes().to_vec()).unwrap()).or_default() += 1;
        });
        assert!(n <= 10);
        if cursor == 0 {
            break;
        }
        assert_eq!(n, 10);
        step += 1;
        for i in 0..100 {
            let key = format!("come{}", step / 100 * 1_000_000 + (step % 100) * 100 + i);
            if step % 200 < 100 {
                t.insert(thin(&key)).unwrap();
            } else {
                t.remove(format!("come{}", step / 200 * 2_000_000 + (step % 100) * 100 + i).as_bytes());
            }
        }
    }
    check(&t);
    assert!((0..5_000).all(|i| seen[&format!("stay{i}")] == 1));
    assert!(seen.values().all(|&n| n == 1));
}

#[test]
fn any_cursor_is_legal() {
    let mut t = Table::new(Hashing::new(3));
    for i in 0..1_000 {
        t.insert(thin(&format!("{i}"))).unwrap();
    }
    assert_eq!(t.scan(u64::MAX, 10, |_| {}), 0);
    assert_eq!(t.scan(0, 100_000, |_| {}), 0);
    let mut n = 0;
    t.scan(1 << 51, 100_000, |_| n += 1);
    assert!((400..600).contains(&n));
}

#[test]
fn random_is_fair_enough() {
    let mut t = Table::new(Hashing::new(5));
    for i in 0..1_000 {
        t.insert(thin(&format!("{i}"))).unwrap();
    }
    let mut rng = Rng::new(9);
    let mut hits: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..100_000 {
        let pos = t.random(&mut rng).unwrap();
        *hits.entry(String::from_utf8(t.at(pos).unwrap().as_bytes().to_vec()).unwrap()).or_default() += 1;
    }
    assert_eq!(hits.len(), 1_000);
    assert!(hits.values().all(|&n| (40..190).contains(&n)), "expected about 100 each");
}

#[test]
fn a_million_items_cost_at_most_twenty_bytes_each_beside_their_own() {
    let mut t = Table::new(Hashing::new(5));
    let n = 1_000_000;
    for i in 0..n {
        t.insert(thin(&format!("{i}"))).unwrap();
    }
    assert!(t.memory_usage() <= 20 * n, "{} bytes an item", t.memory_usage() as f64 / n as f64);
    let mut steps = 0;
    while t.free_step(1_000) > 0 {
        steps += 1;
    }
    assert!(steps >= n / (1_000 + SEGMENT_MAX));
}

#[test]
fn coming_and_going_leaves_the_number_of_buckets() {
    let mut rng = Rng::new(9);
    let mut t = Table::new(Hashing::new(4));
    let mut there: Vec<u32> = (0..10_000).collect();
    for i in &there {
        t.insert(thin(&format!("{i}"))).unwrap();
    }
    let before = t.buckets();
    for new in 10_000..150_000 {
        let place = rng.below(there.len());
        assert!(t.remove(format!("{}", there[place]).as_bytes()).is_some());
        there[place] = new;
        t.insert(thin(&format!("{new}"))).unwrap();
    }
    check(&t);
    assert!(t.segments.iter().all(|s| s.items.num_buckets() <= 256));
    assert!(t.buckets() < before * 5 / 4, "{before} buckets, then {}", t.buckets());
}

/// Marks items that are looked at.
mod counted {
    use super::*;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

    static STEP: AtomicU32 = AtomicU32::new(0);
    static TOUCHED: AtomicUsize = AtomicUsize::new(0);

    struct Counted {
        key: [u8; 4],
        /// The step that looked at it last.
        step: Cell<u32>,
    }

    impl Keyed for Counted {
        fn key(&self) -> &[u8] {
            if self.step.replace(STEP.load(Relaxed)) != STEP.load(Relaxed) {
                TOUCHED.fetch_add(1, Relaxed);
            }
            &self.key
        }
    }

    /// Most items that one insertion and one removal look at, while a table grows to `n` items and shrinks again.
    fn most(n: u32) -> (usize, usize) {
        let mut t = Table::new(Hashing::new(11));
        let step = |change: &mut dyn FnMut()| {
            STEP.fetch_add(1, Relaxed);
            TOUCHED.store(0, Relaxed);
            change();
            TOUCHED.load(Relaxed)
        };
        let (mut growing, mut shrinking) = (0, 0);
        for i in 0..n {
            let item = Counted { key: i.to_le_bytes(), step: Cell::new(0) };
            let mut item = Some(item);
            growing = growing.max(step(&mut || assert!(t.insert(item.take().unwrap()).is_ok())));
        }
        for i in 0..n {
            shrinking = shrinking.max(step(&mut || assert!(t.remove(&i.to_le_bytes()).is_some())));
        }
        assert!(t.is_empty());
        (growing, shrinking)
    }

    #[test]
    fn no_step_touches_more_than_one_segment() {
        let (growing, shrinking) = most(100_000);
        assert!((SEGMENT_MAX..=SEGMENT_MAX + 1).contains(&growing), "{growing}");
        assert!((MERGE_MAX / 2..=SEGMENT_MAX).contains(&shrinking), "{shrinking}");
    }

    #[test]
    #[ignore = "takes a minute; counts the same at ten million items"]
    fn no_step_touches_more_than_one_segment_of_ten_million_items() {
        let (growing, shrinking) = most(10_000_000);
        assert!((SEGMENT_MAX..=SEGMENT_MAX + 1).contains(&growing), "{growing}");
        assert!((MERGE_MAX / 2..=SEGMENT_MAX).contains(&shrinking), "{shrinking}");
    }
}
