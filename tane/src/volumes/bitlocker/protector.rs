//! What opens a volume: each protector has the master key, wrapped in a key of its own.

use super::datum::{array, data, half, text, KEY, SEALED, STRETCHED, TEXT};
use super::seal::Sealed;
use super::secret;
use crate::table::guid;

/// What a key is kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectorKind {
    /// Nothing: the key is beside it. Protection is suspended.
    ClearKey,
    /// What the user chose.
    Password,
    /// 48 digits.
    RecoveryPassword,
    /// A file of the name `ID.BEK`.
    StartupKey,
    /// A certificate; not opened here.
    SmartCard,
    /// The chip of that machine; not opened here.
    Tpm,
    /// The chip, and a number.
    TpmAndPin,
    /// The chip, and a file.
    TpmAndStartupKey,
    /// All three.
    TpmPinAndStartupKey,
    /// One that is not known.
    Other,
}

impl ProtectorKind {
    fn numbered(number: u16) -> Self {
        match number {
            0x0000 => Self::ClearKey,
            0x0100 => Self::Tpm,
            0x0200 => Self::StartupKey,
            0x0300 => Self::TpmAndStartupKey,
            0x0500 => Self::TpmAndPin,
            0x0700 => Self::TpmPinAndStartupKey,
            0x0800 => Self::RecoveryPassword,
            0x1000 => Self::SmartCard,
            0x2000 => Self::Password,
            _ => Self::Other,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClearKey => "clear key",
            Self::Password => "password",
            Self::RecoveryPassword => "recovery password",
            Self::StartupKey => "startup key",
            Self::SmartCard => "smart card",
            Self::Tpm => "TPM",
            Self::TpmAndPin => "TPM and PIN",
            Self::TpmAndStartupKey => "TPM and startup key",
            Self::TpmPinAndStartupKey => "TPM, PIN and startup key",
            Self::Other => "unknown",
        }
    }

    /// Whether it can be given here; the rest needs the computer, or a card.
    pub fn is_secret(self) -> bool {
        matches!(
            self,
            Self::Password | Self::RecoveryPassword | Self::StartupKey
        )
    }
}

/// What opens an encrypted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protector {
    /// What it is.
    pub kind: ProtectorKind,
    /// As Windows writes it: what a recovery password or the file of a startup key is
    /// found by.
    pub id: String,
    /// What somebody called it.
    pub name: Option<String>,
}

/// A protector, and what it protects.
pub(super) struct Sealing {
    pub protector: Protector,
    salt: Option<[u8; 16]>,
    clear_key: Option<[u8; 32]>,
    sealed: Option<Sealed>,
}

impl Sealing {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let kind = ProtectorKind::numbered(half(bytes, 26)?);
        let id = guid(bytes.get(..16)?).unwrap_or_default();
        let mut new = Self {
            protector: Protector {
                kind,
                id: id.to_ascii_uppercase(),
                name: None,
            },
            salt: None,
            clear_key: None,
            sealed: None,
        };
        for datum in data(bytes.get(28..)?)? {
            match datum.kind {
                KEY => new.clear_key = array(datum.bytes, 4),
                TEXT => new.protector.name = Some(text(datum.bytes)).filter(|t| !t.is_empty()),
                STRETCHED => new.salt = array(datum.bytes, 4),
                SEALED => new.sealed = Sealed::parse(datum.bytes),
                _ => {}
            }
        }
        Some(new)
    }

    /// The master key, if nothing is needed to have it.
    pub fn clear_master_key(&self) -> Option<[u8; 32]> {
        let is_clear = self.protector.kind == ProtectorKind::ClearKey;
        self.unseal(self.clear_key.filter(|_| is_clear)?)
    }

    /// The master key, if this secret is the protector's.
    pub fn master_key(&self, secret: &[u8]) -> Option<[u8; 32]> {
        // Stretching takes long.
        self.sealed.as_ref()?;
        let stretched = |known: [u8; 32]| Some(secret::stretch(known, self.salt?));
        let key = match self.protector.kind {
            ProtectorKind::Password => stretched(secret::password(secret)?)?,
            ProtectorKind::RecoveryPassword => stretched(secret::recovery_password(secret)?)?,
            ProtectorKind::StartupKey => secret::startup_key(secret, &self.protector.id)?,
            _ => return None,
        };
        self.unseal(key)
    }

    fn unseal(&self, key: [u8; 32]) -> Option<[u8; 32]> {
        let unsealed = self.sealed.as_ref()?.key(&key)?;
        unsealed.bytes.try_into().ok()
    }
}
