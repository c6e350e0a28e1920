//! Which frames are for the driver (virtio 1.2, 5.1.6.5.1, 5.1.6.5.2). Until it says
//! otherwise all are: a driver without the control queue cannot.

use super::config::Mac;

/// Addresses of a table; of a longer one all addresses count as in it.
const MOST: usize = 64;

#[derive(Debug)]
enum Table {
    All,
    These(Vec<Mac>),
}

#[derive(Debug)]
pub struct Filter {
    mac: Mac,
    promiscuous: bool,
    all_groups: bool,
    stations: Table,
    groups: Table,
}

impl Filter {
    pub fn new(mac: Mac) -> Self {
        Self {
            mac,
            promiscuous: true,
            all_groups: false,
            stations: Table::These(Vec::new()),
            groups: Table::These(Vec::new()),
        }
    }

    pub fn set_mac(&mut self, mac: Mac) {
        self.mac = mac;
    }

    pub fn set_promiscuous(&mut self, yes: bool) {
        self.promiscuous = yes;
    }

    pub fn set_all_groups(&mut self, yes: bool) {
        self.all_groups = yes;
    }

    /// Two tables, each a count of four bytes and so many addresses: stations, groups.
    /// `false`: they are not that.
    pub fn set_tables(&mut self, bytes: &[u8]) -> bool {
        let Some((stations, rest)) = table(bytes) else {
            return false;
        };
        let Some((groups, [])) = table(rest) else {
            return false;
        };
        (self.stations, self.groups) = (stations, groups);
        true
    }

    /// Whether frames to this address are for the driver.
    pub fn takes(&self, to: Mac) -> bool {
        if self.promiscuous || to == self.mac || to == Mac([0xff; 6]) {
            return true;
        }
        let table = match to.is_group() {
            true if self.all_groups => return true,
            true => &self.groups,
            false => &self.stations,
        };
        match table {
            Table::All => true,
            Table::These(addresses) => addresses.contains(&to),
        }
    }
}

fn table(bytes: &[u8]) -> Option<(Table, &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let (addresses, rest) = rest.split_at_checked(count.checked_mul(6)?)?;
    if count > MOST {
        return Some((Table::All, rest));
    }
    let addresses = addresses.chunks_exact(6).map(|bytes| {
        let bytes: [u8; 6] = bytes.try_into().expect("six bytes");
        Mac(bytes)
    });
    Some((Table::These(addresses.collect()), rest))
}
