//! The tables of Redmine 3.3.1 that creating and processing tasks touches.
//!
//! Of a table that is not written, the columns that are left out neither have an index nor are long. An index over `id` and another column is one over that column here: entries end with `id` anyway.

use super::rows::{COLUMN, column};
use siltstone_base::engine::TableSpec;
use siltstone_base::index_spec::IndexSpec;

/// A table, by its place among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Issues,
    Journals,
    JournalDetails,
    Users,
    EmailAddresses,
    Projects,
    ProjectsTrackers,
    EnabledModules,
    Members,
    MemberRoles,
    Roles,
    Trackers,
    IssueStatuses,
    Enumerations,
    Workflows,
    CustomValues,
    Watchers,
}

/// What a table is.
struct Definition {
    table: Table,
    name: &'static str,
    /// Its columns of fixed length but for `id`.
    columns: &'static [&'static str],
    /// Its texts, which stand behind them, with the bytes of each.
    texts: &'static [(&'static str, usize)],
    /// The columns that each of its secondary indexes sorts by.
    indexes: &'static [Index],
}

enum Index {
    By(&'static [&'static str]),
    Unique(&'static [&'static str]),
}
use Index::{By, Unique};

/// All tables, in the order of [`Table`].
static TABLES: [Definition; Table::COUNT] = [
    Definition {
        table: Table::Issues,
        name: "issues",
        columns: &[
            "tracker_id",
            "project_id",
            "due_date",
            "category_id",
            "status_id",
            "assigned_to_id",
            "priority_id",
            "fixed_version_id",
            "author_id",
            "lock_version",
            "created_on",
            "updated_on",
            "start_date",
            "done_ratio",
            "estimated_hours",
            "parent_id",
            "root_id",
            "lft",
            "rgt",
            "is_private",
            "closed_on",
        ],
        texts: &[("subject", 60), ("description", 540)],
        indexes: &[
            By(&["project_id"]),
            By(&["status_id"]),
            By(&["category_id"]),
            By(&["assigned_to_id"]),
            By(&["fixed_version_id"]),
            By(&["tracker_id"]),
            By(&["priority_id"]),
            By(&["author_id"]),
            By(&["created_on"]),
            By(&["root_id", "lft", "rgt"]),
        ],
    },
    Definition {
        table: Table::Journals,
        name: "journals",
        columns: &["journalized_id", "journalized_type", "user_id", "created_on", "private_notes"],
        texts: &[("notes", 300)],
        indexes: &[
            By(&["journalized_id", "journalized_type"]),
            By(&["user_id"]),
            By(&["journalized_id"]),
            By(&["created_on"]),
        ],
    },
    Definition {
        table: Table::JournalDetails,
        name: "journal_details",
        columns: &["journal_id"],
        texts: &[("property", 4), ("prop_key", 14), ("old_value", 3), ("value", 3)],
        indexes: &[By(&["journal_id"])],
    },
    Definition {
        table: Table::Users,
        name: "users",
        columns: &["type", "admin", "status"],
        texts: &[
            ("login", 12),
            ("hashed_password", 40),
            ("salt", 32),
            ("firstname", 10),
            ("lastname", 10),
            ("language", 2),
            ("mail_notification", 13),
        ],
        indexes: &[By(&["type"])],
    },
    Definition {
        table: Table::EmailAddresses,
        name: "email_addresses",
        columns: &["user_id", "is_default", "notify", "created_on", "updated_on"],
        texts: &[("address", 24)],
        indexes: &[By(&["user_id"])],
    },
    Definition {
        table: Table::Projects,
        name: "projects",
        columns: &["lft", "rgt", "is_public", "parent_id", "status"],
        texts: &[("name", 30), ("description", 500), ("identifier", 20)],
        indexes: &[By(&["lft"]), By(&["rgt"])],
    },
    Definition {
        table: Table::ProjectsTrackers,
        name: "projects_trackers",
        columns: &["project_id", "tracker_id"],
        texts: &[],
        indexes: &[Unique(&["project_id", "tracker_id"]), By(&["project_id"])],
    },
    Definition {
        table: Table::EnabledModules,
        name: "enabled_modules",
        columns: &["project_id"],
        texts: &[("name", 15)],
        indexes: &[By(&["project_id"])],
    },
    Definition {
        table: Table::Members,
        name: "members",
        columns: &["user_id", "project_id", "created_on", "mail_notification"],
        texts: &[],
        indexes: &[Unique(&["user_id", "project_id"]), By(&["user_id"]), By(&["project_id"])],
    },
    Definition {
        table: Table::MemberRoles,
        name: "member_roles",
        columns: &["member_id", "role_id", "inherited_from"],
        texts: &[],
        indexes: &[By(&["member_id"]), By(&["role_id"])],
    },
    Definition {
        table: Table::Roles,
        name: "roles",
        columns: &["position", "assignable", "builtin"],
        texts: &[("name", 15), ("permissions", 800)],
        indexes: &[],
    },
    Definition {
        table: Table::Trackers,
        name: "trackers",
        columns: &["position", "is_in_roadmap", "default_status_id"],
        texts: &[("name", 15)],
        indexes: &[],
    },
    Definition {
        table: Table::IssueStatuses,
        name: "issue_statuses",
        columns: &["is_closed", "position"],
        texts: &[("name", 15)],
        indexes: &[By(&["is_closed"]), By(&["position"])],
    },
    Definition {
        table: Table::Enumerations,
        name: "enumerations",
        columns: &["type", "project_id", "position", "is_default", "active"],
        texts: &[("name", 15)],
        indexes: &[By(&["type"]), By(&["project_id"])],
    },
    Definition {
        table: Table::Workflows,
        name: "workflows",
        columns: &["role_id", "tracker_id", "old_status_id", "new_status_id", "assignee", "author", "type"],
        texts: &[("field_name", 0), ("rule", 0)],
        indexes: &[
            By(&["role_id", "tracker_id", "old_status_id"]),
            By(&["role_id"]),
            By(&["old_status_id"]),
            By(&["new_status_id"]),
        ],
    },
    Definition {
        table: Table::CustomValues,
        name: "custom_values",
        columns: &["customized_type", "customized_id", "custom_field_id"],
        texts: &[("value", 20)],
        indexes: &[By(&["customized_type", "customized_id"]), By(&["custom_field_id"])],
    },
    Definition {
        table: Table::Watchers,
        name: "watchers",
        columns: &["watchable_id", "watchable_type", "user_id"],
        texts: &[],
        indexes: &[By(&["watchable_id", "watchable_type"]), By(&["user_id", "watchable_type"]), By(&["user_id"])],
    },
];

/// An index that is read: its table, and its position there.
pub(super) type ReadIndex = (Table, usize);

pub(super) const TASKS_BY_ASSIGNEE: ReadIndex = (Table::Issues, 3);
pub(super) const JOURNALS_OF: ReadIndex = (Table::Journals, 0);
pub(super) const ADDRESSES_OF_USER: ReadIndex = (Table::EmailAddresses, 0);
pub(super) const TRACKERS_OF_PROJECT: ReadIndex = (Table::ProjectsTrackers, 1);
pub(super) const MODULES_OF_PROJECT: ReadIndex = (Table::EnabledModules, 0);
pub(super) const MEMBER: ReadIndex = (Table::Members, 0);
pub(super) const ROLES_OF_MEMBER: ReadIndex = (Table::MemberRoles, 0);
pub(super) const ENUMERATIONS_BY_TYPE: ReadIndex = (Table::Enumerations, 0);
pub(super) const TRANSITIONS: ReadIndex = (Table::Workflows, 0);
pub(super) const VALUES_OF: ReadIndex = (Table::CustomValues, 0);
pub(super) const WATCHERS_OF: ReadIndex = (Table::Watchers, 0);

impl Table {
    /// All tables, in their order.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        TABLES.iter().map(|definition| definition.table)
    }

    /// How many there are.
    pub(super) const COUNT: usize = Self::Watchers as usize + 1;

    fn definition(self) -> &'static Definition {
        &TABLES[self as usize]
    }

    /// What an engine makes it of.
    pub(super) fn spec(self) -> TableSpec {
        let definition = self.definition();
        let index = |index: &Index| {
            let (By(names) | Unique(names)) = index;
            let places = names.iter().filter_map(|name| definition.columns.iter().position(|column| column == name));
            IndexSpec::over_columns(names.join("_and_"), places.map(column)).unique(matches!(index, Unique(_)))
        };
        TableSpec { name: definition.name.to_owned(), indexes: definition.indexes.iter().map(index).collect() }
    }

    /// Its columns with `id` and texts.
    #[cfg(test)]
    pub(super) fn columns(self) -> Vec<&'static str> {
        let Definition { columns, texts, .. } = self.definition();
        let texts = texts.iter().map(|(name, _)| *name);
        std::iter::once("id").chain(columns.iter().copied()).chain(texts).collect()
    }

    /// Bytes of its texts together.
    pub(super) fn text_bytes(self) -> usize {
        self.definition().texts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(self) -> u64 {
        (COLUMN * (1 + self.definition().columns.len()) + self.text_bytes()) as u64
    }
}
