//! What openings for reading of one directory, one after another, take over from each other.

use super::column_family::Family;
use super::state::DbInner;
use crate::file_meta::FileMeta;
use siltstone_base::Result;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;
use std::collections::HashMap;

/// Tables that are open, of one directory at several times: what is read again of it need not open them again, and they need not be there any more.
#[derive(Debug, Default)]
pub(crate) struct OpenTables {
    tables: HashMap<(u32, u64), Arc<FileMeta>>,
    /// By which rows of a family expire, and what whoever writes had saved of that. Tables that are open judge their blocks by it.
    policies: HashMap<u32, (Vec<u8>, Arc<dyn ExpiryPolicy>)>,
}

impl OpenTables {
    /// By what rows of a family expire, of which its writer has `saved` this. The same as before if that is the same, and if not, its tables are opened anew.
    pub(crate) fn view_of(
        &mut self,
        family: u32,
        policy: Arc<dyn ExpiryPolicy>,
        saved: Vec<u8>,
    ) -> Result<Arc<dyn ExpiryPolicy>> {
        if let Some((_, view)) = self.policies.get(&family).filter(|(known, _)| *known == saved) {
            return Ok(Arc::clone(view));
        }
        let view = policy.view(&saved)?;
        self.tables.retain(|(of, _), _| *of != family);
        self.policies.insert(family, (saved, Arc::clone(&view)));
        Ok(view)
    }

    /// Opens all tables of `family`, those first that are here, and takes them in.
    pub(crate) fn open_all(&mut self, family: &Family) -> Result<()> {
        let version = Arc::clone(&family.super_version.load().version);
        for (_, file) in version.all_files() {
            let key = (family.id, file.number);
            let same = self.tables.get(&key).filter(|known| known.is_same_file(file));
            if let Some(reader) = same.and_then(|known| known.reader.get()) {
                file.reader.get_or_init(|| Arc::clone(reader));
                continue;
            }
            family.table_cache.reader(file)?;
            self.tables.insert(key, Arc::clone(file));
        }
        Ok(())
    }

    /// Forgets those that are not of `db`.
    pub(crate) fn keep_those_of(&mut self, db: &DbInner) {
        let mut kept = HashMap::new();
        for family in db.families.load().values() {
            let version = Arc::clone(&family.super_version.load().version);
            kept.extend(version.all_files().map(|(_, file)| ((family.id, file.number), Arc::clone(file))));
        }
        self.tables = kept;
        self.policies.retain(|family, _| db.families.load().contains_key(family));
    }
}
