//! What a session has still to send: chunks of copied bytes, and shared large values that are sent from where they lie.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A large byte string that several owners may hold: a value in the keyspace and replies that are being sent.
pub type Shared = Arc<Vec<u8>>;

/// Size at which a chunk is closed and the next one begun, in bytes.
pub const CHUNK: usize = 16 * 1024;
/// What a chunk starts with, in bytes.
const FIRST: usize = 512;

#[derive(Debug)]
enum Chunk {
    Owned(Vec<u8>),
    Shared(Shared),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Owned(v) => v,
            Chunk::Shared(s) => s,
        }
    }
}

/// A place in the output where a header will be put in once its number is known.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    chunk: u64,
    offset: usize,
}

/// The output queue of a session.
#[derive(Debug, Default)]
pub struct Output {
    /// Closed chunks, oldest first.
    queue: VecDeque<Chunk>,
    /// The chunk that is being written. All its room is initialised, so that a reply can be put there by stores of fixed size;
    tail: Vec<u8>,
    /// so much of it is written.
    end: usize,
    /// Bytes of the oldest chunk that are already sent.
    sent: usize,
    /// Number of the tail, counted from the session's begin.
    tail_number: u64,
    /// Bytes in closed chunks that this session owns.
    owned: usize,
    /// Bytes in closed chunks that it shares.
    shared: usize,
    /// Bytes, owned and shared, from which on it is looked at how many of the shared ones nobody else holds any more.
    look_at: usize,
    /// Most bytes that it may own; beyond it writes are dropped and [`Output::overflowed`] tells.
    limit: usize,
    overflowed: bool,
}

impl Output {
    /// An empty queue that may own `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Sets the most bytes that the queue may own from now on.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether something was dropped because of the limit or for lack of memory.
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Bytes still to be sent.
    pub fn len(&self) -> usize {
        self.owned + self.shared + self.end - self.sent
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.end == 0 && self.queue.is_empty()
    }

    /// Bytes that the queue owns (the tail's room with them).
    pub fn owned(&self) -> usize {
        self.owned + self.tail.len()
    }

    /// Bytes in closed chunks that it shares.
    pub const fn shared(&self) -> usize {
        self.shared
    }

    /// Bytes of shared values that nobody else holds any more: they were overwritten while they wait here.
    fn abandoned(&self) -> usize {
        let alone = |chunk: &Chunk| match chunk {
            Chunk::Shared(value) if Arc::strong_count(value) == 1 => value.len(),
            _ => 0,
        };
        self.queue.iter().map(alone).sum()
    }

    /// Bytes in the buffer that is being written into and in the closed chunks, as far as they are still to be sent.
    pub fn parts(&self) -> (usize, usize) {
        let tail = if self.queue.is_empty() { self.end - self.sent } else { self.end };
        (tail, self.len() - tail)
    }

    /// Size of the buffer that is being written into.
    pub const fn buffer_size(&self) -> usize {
        self.tail.len()
    }

    /// Number of closed chunks.
    pub fn chunks(&self) -> usize {
        self.queue.len()
    }

    /// Appends bytes.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        match self.tail.get_mut(self.end..).and_then(|room| room.get_mut(..bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.end += bytes.len();
            }
            None => self.write_slowly(bytes),
        }
    }

    /// Appends the first `n` bytes of a block, which is stored as a whole.
    #[inline]
    pub fn write_block<const N: usize>(&mut self, block: &[u8; N], n: usize) {
        match self.spare_mut().first_chunk_mut() {
            Some(place) => {
                *place = *block;
                self.end += n;
            }
            None => self.write_slowly(&block[..n]),
        }
    }

    /// Makes sure that `n` bytes (at most [`CHUNK`]) can be appended without a further check; false: they must be dropped.
    #[inline]
    pub fn room(&mut self, n: usize) -> bool {
        self.tail.len() - self.end >= n || self.make_room(n)
    }

    /// What the tail has room for, to be written to directly; [`wrote`](Self::wrote) must follow.
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        self.tail.get_mut(self.end..).unwrap_or_default()
    }

    /// The first `n` bytes of [`spare_mut`](Self::spare_mut) were written.
    #[inline]
    pub fn wrote(&mut self, n: usize) {
        debug_assert!(n <= self.tail.len() - self.end);
        self.end += n;
    }

    #[cold]
    fn make_room(&mut self, n: usize) -> bool {
        if self.overflowed {
            return false;
        }
        if self.owned + self.end + n > self.limit {
            self.overflow();
            return false;
        }
        let want = if self.end + n <= CHUNK {
            // The chunk grows, doubling up to its full size.
            (self.tail.len() * 2).max(FIRST).max(self.end + n).min(CHUNK)
        } else {
            self.close_tail();
            n.max(CHUNK)
        };
        if want > self.tail.len() {
            if self.tail.try_reserve_exact(want - self.tail.len()).is_err() {
                self.overflow();
                return false;
            }
            self.tail.resize(want, 0);
        }
        true
    }

    #[cold]
    fn write_slowly(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let free = self.tail.len() - self.end;
            let n = if bytes.len() <= free {
                bytes.len()
            } else if free > 0 && self.tail.len() >= CHUNK {
                free
            } else {
                let n = bytes.len().min(CHUNK);
                if !self.make_room(n) {
                    return;
                }
                n
            };
            let (now, rest) = bytes.split_at(n);
            self.tail[self.end..self.end + n].copy_from_slice(now);
            self.end += n;
            bytes = rest;
        }
    }

    fn overflow(&mut self) {
        self.overflowed = true;
        // What is queued will never be sent: the session is closed.
        self.queue = VecDeque::new();
        self.tail = Vec::new();
        (self.end, self.owned, self.shared, self.sent) = (0, 0, 0, 0);
    }

    /// Closes the tail so that the next byte begins a new chunk.
    fn close_tail(&mut self) {
        if self.end == 0 {
            return;
        }
        self.owned += self.end;
        let tail = self.take_tail();
        self.queue.push_back(Chunk::Owned(tail));
        self.tail_number += 1;
    }

    /// What is written of the tail; there is none any more.
    fn take_tail(&mut self) -> Vec<u8> {
        let mut tail = core::mem::take(&mut self.tail);
        tail.truncate(core::mem::take(&mut self.end));
        tail
    }

    /// Appends a large value without copying it.
    pub fn write_shared(&mut self, value: &Shared) {
        if self.overflowed {
            return;
        }
        self.close_tail();
        if self.owned + self.shared > self.limit.max(self.look_at) {
            let abandoned = self.abandoned();
            if self.owned + abandoned > self.limit {
                return self.overflow();
            }
            self.look_at = self.owned + self.shared + self.limit / 4;
        }
        self.shared += value.len();
        self.queue.push_back(Chunk::Shared(value.clone()));
        self.tail_number += 1;
    }

    /// The present place, for [`insert`](Self::insert).
    pub fn mark(&self) -> Mark {
        Mark { chunk: self.tail_number, offset: self.end }
    }

    /// Puts bytes in at a place that was marked since the last byte was sent.
    pub fn insert(&mut self, mark: Mark, bytes: &[u8]) {
        if self.overflowed {
            return;
        }
        let back = (self.tail_number - mark.chunk) as usize;
        if back == 0 {
            if self.tail.len() - self.end < bytes.len() {
                self.tail.resize(self.end + bytes.len(), 0);
            }
            self.tail.copy_within(mark.offset..self.end, mark.offset + bytes.len());
            self.tail[mark.offset..mark.offset + bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
            return;
        }
        let index = self.queue.len() - back;
        match &mut self.queue[index] {
            Chunk::Owned(v) => {
                v.splice(mark.offset..mark.offset, bytes.iter().copied());
                self.owned += bytes.len();
            }
            // The mark was made on an empty tail that a shared chunk then followed.
            Chunk::Shared(_) => {
                self.owned += bytes.len();
                self.queue.insert(index, Chunk::Owned(bytes.to_vec()));
                self.tail_number += 1;
            }
        }
    }

    /// Drops what was written since a mark, if it all lies in the tail or in whole chunks after it.
    pub fn truncate(&mut self, mark: Mark) {
        if self.overflowed {
            return;
        }
        while self.tail_number > mark.chunk {
            match self.queue.pop_back() {
                Some(Chunk::Owned(v)) => {
                    self.owned -= v.len();
                    (self.end, self.tail) = (v.len(), v);
                }
                Some(Chunk::Shared(s)) => {
                    self.shared -= s.len();
                    (self.tail, self.end) = (Vec::new(), 0);
                }
                None => break,
            }
            self.tail_number -= 1;
        }
        self.end = self.end.min(mark.offset);
    }

    /// The next piece to send, empty when there is none.
    #[inline]
    pub fn front(&self) -> &[u8] {
        match self.queue.front() {
            None => &self.tail[self.sent..self.end],
            Some(chunk) => &chunk.bytes()[self.sent..],
        }
    }

    /// Notes that the first `n` bytes of [`front`](Self::front) are sent.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.sent += n;
        if let Some(front) = self.queue.front() {
            let len = front.bytes().len();
            if self.sent < len {
                return;
            }
            match front {
                Chunk::Owned(_) => self.owned -= len,
                Chunk::Shared(_) => self.shared -= len,
            }
            self.queue.pop_front();
            self.sent = 0;
            if self.queue.is_empty() {
                self.queue = VecDeque::new();
            }
        } else if self.sent >= self.end {
            (self.end, self.sent) = (0, 0);
        }
    }

    /// Takes the buffer of an empty queue, to be lent to another session.
    pub fn take_buffer(&mut self) -> Option<Vec<u8>> {
        if self.is_empty() && !self.tail.is_empty() { Some(core::mem::take(&mut self.tail)) } else { None }
    }

    /// Lends a buffer that [`take_buffer`](Self::take_buffer) gave to a queue that has none.
    #[inline]
    pub fn lend_buffer(&mut self, buffer: impl FnOnce() -> Option<Vec<u8>>) {
        if self.tail.is_empty()
            && let Some(b) = buffer()
        {
            self.tail = b;
        }
    }

    /// Moves everything that is queued in `other` behind what is queued here.
    pub fn append(&mut self, other: &mut Output) {
        let overflowed = other.overflowed;
        while !other.front().is_empty() {
            match other.queue.pop_front() {
                Some(Chunk::Shared(s)) => self.write_shared(&s),
                Some(Chunk::Owned(v)) => self.write(&v),
                None => {
                    let tail = other.take_tail();
                    self.write(&tail);
                }
            }
        }
        *other = Output::new(other.limit);
        if overflowed {
            self.overflow();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn drain(out: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !out.front().is_empty() {
            let n = out.front().len().min(step);
            all.extend_from_slice(&out.front()[..n]);
            out.advance(n);
        }
        assert!(out.is_empty());
        assert_eq!(out.len(), 0);
        all
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        for step in [1_000, 16_384, 100_000] {
            let mut out = Output::new(usize::MAX / 2);
            let mut want = Vec::new();
            for i in 0..200usize {
                let piece = vec![i as u8; i * 37 % 5_000];
                out.write(&piece);
                want.extend_from_slice(&piece);
                if i % 50 == 0 {
                    let big = Arc::new(vec![7u8; 40_000]);
                    out.write_shared(&big);
                    want.extend_from_slice(&big);
                }
                assert_eq!(out.len(), want.len());
            }
            out.write(&vec![1; 100_000]);
            want.extend_from_slice(&vec![1; 100_000]);
            assert!(drain(&mut out, step) == want);
        }
    }

    #[test]
    fn headers_are_put_in_wherever_the_mark_lies() {
        for before in [0, 10, 16_380, 16_384] {
            for after in [0, 10, 16_380, 40_000] {
                for shared in [false, true] {
                    let mut out = Output::new(usize::MAX / 2);
                    out.write(&vec![b'a'; before]);
                    let mark = out.mark();
                    if shared {
                        out.write_shared(&Arc::new(vec![b's'; 20_000]));
                    }
                    out.write(&vec![b'b'; after]);
                    out.insert(mark, b"*12\r\n");
                    let mut want = vec![b'a'; before];
                    want.extend_from_slice(b"*12\r\n");
                    if shared {
                        want.extend_from_slice(&vec![b's'; 20_000]);
                    }
                    want.extend_from_slice(&vec![b'b'; after]);
                    assert_eq!(out.len(), want.len());
                    assert!(drain(&mut out, 9_999) == want, "{before} {after} {shared}");
                }
            }
        }
    }

    #[test]
    fn truncate_forgets_what_came_after_the_mark() {
        let mut out = Output::new(usize::MAX / 2);
        out.write(b"keep");
        let mark = out.mark();
        out.write(&vec![1; 50_000]);
        out.write_shared(&Arc::new(vec![2; 50_000]));
        out.write(b"x");
        out.truncate(mark);
        out.write(b"!");
        assert_eq!(drain(&mut out, 100), b"keep!");
    }

    #[test]
    fn beyond_the_limit_everything_is_dropped() {
        let mut out = Output::new(100_000);
        out.write(&vec![1; 90_000]);
        assert!(!out.overflowed());
        out.write(&vec![1; 20_000]);
        assert!(out.overflowed() && out.is_empty());
    }
}
