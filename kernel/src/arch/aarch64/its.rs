//! GICv3's interrupt translation service.
use super::gic::Message;
use virtio_drivers::transport::pci::bus::DeviceFunction;

/// None yet.
pub fn allocate_message(_device: DeviceFunction) -> Option<Message> {
    None
}
