//! Streams: nodes as they lie in memory, then what is known of the entries, then the groups with their pending entries.

use super::kind;
use super::load::{Failure, Reader};
use super::save::Writer;
use crate::error::Error;
use crate::types::stream::{Group, Node, Stream, StreamId};

impl Writer {
    pub(super) fn stream(&mut self, stream: &Stream) -> Result<(), Error> {
        self.kind(kind::STREAM_3)?;
        let log = &stream.log;
        self.len(log.node_count() as u64)?;
        for (id, node) in log.nodes() {
            self.blob(&id.to_bytes())?;
            self.blob(node.listpack().as_bytes())?;
        }
        self.len(log.len)?;
        for id in [log.last_id, log.first_id, log.max_deleted_id] {
            self.id(id)?;
        }
        self.len(log.entries_added)?;
        self.len(stream.groups.len() as u64)?;
        for (name, group) in &stream.groups {
            self.string(name)?;
            self.group(group)?;
        }
        Ok(())
    }

    fn id(&mut self, id: StreamId) -> Result<(), Error> {
        self.len(id.ms)?;
        self.len(id.seq)
    }

    fn group(&mut self, group: &Group) -> Result<(), Error> {
        self.id(group.last_id)?;
        // -1 stands for a number that is not known.
        self.len(group.entries_read.unwrap_or(u64::MAX))?;
        self.len(group.pending.len() as u64)?;
        for (id, pending) in &group.pending {
            self.bytes(&id.to_bytes())?;
            self.bytes(&pending.delivered_ms.to_le_bytes())?;
            self.len(pending.deliveries)?;
        }
        self.len(group.consumers.len() as u64)?;
        for (name, consumer) in &group.consumers {
            self.string(name)?;
            self.bytes(&consumer.seen_ms.to_le_bytes())?;
            self.bytes(&consumer.active_ms.to_le_bytes())?;
            self.len(consumer.pending.len() as u64)?;
            for id in &consumer.pending {
                self.bytes(&id.to_bytes())?;
            }
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// A stream of one of the three formats.
    pub(super) fn stream(&mut self, format: u8) -> Result<Stream, Failure> {
        let mut stream = Stream::new();
        for _ in 0..self.len()? {
            let master: [u8; 16] = (*self.string()?).try_into().map_err(|_| Failure::BadFormat)?;
            let master = StreamId::from_bytes(master);
            let node = Node::from_listpack(self.listpack()?, master).ok_or(Failure::BadFormat)?;
            if !stream.log.add_node(master, node) {
                return Err(Failure::BadFormat);
            }
        }
        let log = &mut stream.log;
        let right = self.len()? == log.len;
        log.last_id = self.stream_id()?;
        log.settle();
        if format == kind::STREAM {
            log.entries_added = log.len;
        } else {
            // The first entry is known from the nodes.
            self.stream_id()?;
            log.max_deleted_id = self.stream_id()?;
            log.entries_added = self.len()?;
        }
        if !right || log.last_valid_id() > log.last_id {
            return Err(Failure::BadFormat);
        }
        for _ in 0..self.len()? {
            let name = self.string()?;
            let mut group = Group::new(self.stream_id()?, None);
            group.entries_read = if format == kind::STREAM {
                stream.log.distance_from_first(group.last_id)
            } else {
                Some(self.len()?).filter(|&n| n != u64::MAX)
            };
            self.pending(&mut group, format)?;
            if stream.groups.insert(name.as_ref().into(), group).is_some() {
                return Err(Failure::BadFormat);
            }
        }
        Ok(stream)
    }

    fn stream_id(&mut self) -> Result<StreamId, Failure> {
        Ok(StreamId { ms: self.len()?, seq: self.len()? })
    }

    fn raw_id(&mut self) -> Result<StreamId, Failure> {
        self.array().map(StreamId::from_bytes)
    }

    fn time(&mut self) -> Result<i64, Failure> {
        self.array().map(i64::from_le_bytes)
    }

    /// A group's pending entries and its consumers. Each entry belongs to exactly one of these.
    fn pending(&mut self, group: &mut Group, format: u8) -> Result<(), Failure> {
        let nobody: alloc::sync::Arc<[u8]> = (*b"").into();
        let len = self.len()?;
        for _ in 0..len {
            let (id, delivered_ms) = (self.raw_id()?, self.time()?);
            let pending =
                crate::types::stream::Pending { consumer: nobody.clone(), delivered_ms, deliveries: self.len()? };
            if group.pending.insert(id, pending).is_some() {
                return Err(Failure::BadFormat);
            }
        }
        let mut owned = 0;
        for _ in 0..self.len()? {
            let name = self.string()?;
            let seen_ms = self.time()?;
            if !group.add_consumer(&name, seen_ms) {
                return Err(Failure::BadFormat);
            }
            let active_ms = if format == kind::STREAM_3 { self.time()? } else { seen_ms };
            let (Some(shared), Some(consumer)) = (group.shared_name(&name), group.consumers.get_mut(&*name)) else {
                return Err(Failure::BadFormat);
            };
            consumer.active_ms = active_ms;
            for _ in 0..self.len()? {
                let id = self.raw_id()?;
                let pending = group.pending.get_mut(&id).ok_or(Failure::BadFormat)?;
                // Those that belong to somebody have the name that this consumer's entries share.
                if !alloc::sync::Arc::ptr_eq(&pending.consumer, &nobody) || !consumer.pending.insert(id) {
                    return Err(Failure::BadFormat);
                }
                pending.consumer = shared.clone();
                owned += 1;
            }
        }
        if owned == len { Ok(()) } else { Err(Failure::BadFormat) }
    }
}
