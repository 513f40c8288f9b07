//! Every order in which a few CPUs may come, on a machine that reorders what it may. Built with `--cfg loom` only
//! (`scripts/loom.sh`).
#![cfg(loom)]

use barium_smp::bell::Bell;
use barium_smp::exclusive::{Claim, Exclusive, Wake};
use barium_smp::mailbox::mailbox;
use barium_smp::spin::Lock;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// All orders with so many changes of CPU that nobody asked for.
fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

/// A CPU's halt: an interrupt that comes before it ends it at once.
struct Halt {
    pending: Mutex<bool>,
    came: Condvar,
}

struct Machine {
    bells: Vec<Bell>,
    halts: Vec<Halt>,
}

impl Machine {
    fn new(cpus: usize) -> Self {
        Self {
            bells: (0..cpus).map(|_| Bell::new()).collect(),
            halts: (0..cpus).map(|_| Halt { pending: Mutex::new(false), came: Condvar::new() }).collect(),
        }
    }

    /// As the loop does it: the bell, a last look, the halt. Should a wake-up be lost, loom finds that all threads are stuck.
    fn halt(&self, cpu: usize, nothing_to_do: impl FnOnce() -> bool) {
        if !self.bells[cpu].prepare_halt() {
            return;
        }
        if nothing_to_do() {
            let mut pending = self.halts[cpu].pending.lock().unwrap();
            while !*pending {
                pending = self.halts[cpu].came.wait(pending).unwrap();
            }
            *pending = false;
        }
        self.bells[cpu].awake();
    }
}

impl Wake for Machine {
    fn wake(&self, cpu: usize) {
        if self.bells[cpu].ring() {
            *self.halts[cpu].pending.lock().unwrap() = true;
            self.halts[cpu].came.notify_one();
        }
    }
}

/// A CPU that wants the value `times` times and halts where it does not get it.
fn take(lock: &Exclusive<usize, Machine>, cpu: usize, times: usize) {
    let mut claim = Claim::new(cpu);
    for _ in 0..times {
        loop {
            if let Some(mut value) = lock.try_lock(&mut claim) {
                *value += 1;
                break;
            }
            lock.waker().halt(cpu, || true);
        }
    }
}

#[test]
fn exclusive_two_cpus() {
    model(3, || {
        let lock = Arc::new(Exclusive::new(0, Machine::new(2)));
        let other = lock.clone();
        let thread = thread::spawn(move || take(&other, 1, 2));
        take(&lock, 0, 2);
        thread.join().unwrap();
        assert_eq!(*lock.try_lock(&mut Claim::new(0)).expect("free"), 4);
    });
}

#[test]
fn exclusive_three_cpus() {
    model(2, || {
        let lock = Arc::new(Exclusive::new(0, Machine::new(3)));
        let threads: Vec<_> = (1..3)
            .map(|cpu| {
                let lock = lock.clone();
                thread::spawn(move || take(&lock, cpu, 1))
            })
            .collect();
        take(&lock, 0, 1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*lock.try_lock(&mut Claim::new(0)).expect("free"), 3);
    });
}

#[test]
fn frames_reach_a_cpu_that_halts() {
    model(3, || {
        let machine = Arc::new(Machine::new(1));
        let (outbox, mut inbox) = mailbox(4).expect("memory");
        let threads: Vec<_> = (0..2u8)
            .map(|n| {
                let (machine, outbox) = (machine.clone(), outbox.clone());
                thread::spawn(move || {
                    assert!(outbox.post(2, n, |bytes| bytes.fill(n + 7)).is_some());
                    machine.wake(0);
                })
            })
            .collect();
        let mut seen = 0;
        while seen != 3 {
            let took = inbox.take(|bytes, tag| {
                assert_eq!(bytes, [tag + 7; 2]);
                seen |= 1 << tag;
            });
            if took.is_none() {
                machine.halt(0, || !inbox.is_ready());
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_mailbox_is_used_again() {
    model(3, || {
        let (outbox, mut inbox) = mailbox(2).expect("memory");
        let refused = Arc::new(AtomicUsize::new(0));
        let count = refused.clone();
        let thread = thread::spawn(move || {
            for n in 0..3u8 {
                if outbox.post(1, n, |bytes| bytes.fill(n)).is_none() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut taken = 0;
        let mut last = None;
        let mut look = |inbox: &mut barium_smp::mailbox::Inbox| {
            while inbox.take(|bytes, tag| {
                assert_eq!(bytes, [tag]);
                assert!(last < Some(tag), "in order");
                last = Some(tag);
            }) == Some(())
            {
                taken += 1;
            }
        };
        look(&mut inbox);
        thread.join().unwrap();
        look(&mut inbox);
        assert_eq!(taken + refused.load(Ordering::Relaxed), 3);
    });
}

/// The heap's slabs: batches of objects change hands under this lock.
#[test]
fn spin_lock() {
    model(3, || {
        let lock = Arc::new(Lock::new(Vec::new()));
        let other = lock.clone();
        let thread = thread::spawn(move || other.lock().push(1));
        lock.lock().push(2);
        let mut batch = core::mem::take(&mut *lock.lock());
        thread.join().unwrap();
        batch.append(&mut lock.lock());
        batch.sort_unstable();
        assert_eq!(batch, [1, 2]);
    });
}
