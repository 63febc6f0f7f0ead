//! The macro by which the engines define their options.

/// Defines a struct of options: public documented fields, defaults, one builder method a field, and the list of names.
///
/// ```
/// siltstone_base::define_options! {
///     /// Options of a kiln.
///     KilnOptions {
///         /// Degrees.
///         heat: u32 = 900,
///     }
/// }
///
/// assert_eq!(KilnOptions::default().heat(1000).heat, 1000);
/// assert_eq!(KilnOptions::NAMES, ["heat"]);
/// ```
#[macro_export]
macro_rules! define_options {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty = $default:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $name {
            /// The names of all options of this struct.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($field), )*];

            $(
                $(#[$field_meta])*
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
