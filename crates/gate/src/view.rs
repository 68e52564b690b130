//! Views: what the API and commands show of a thing, as one structure for each.

/// Defines views: structures that are written as JSON and described by the schema of the API. A row is a field with its doc, its
/// type, and its value for what is shown.
///
/// ```text
/// view! {
///     /// A copy of a robots.txt.
///     pub struct CopyEntry of copy: &SnapshotMeta {
///         /// Status of the final response.
///         pub status: u16 = copy.status,
///     }
/// }
/// ```
#[macro_export]
macro_rules! view {
    ($(
        $(#[$of_view:meta])*
        $visible:vis struct $view:ident $(<$life:lifetime>)? of $($from:ident: $source:ty),+ {
            $($(#[$of_field:meta])* $shown:vis $field:ident: $kind:ty = $value:expr,)+
        }
    )+) => {$(
        $(#[$of_view])*
        #[derive(Clone, Debug, serde::Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        $visible struct $view $(<$life>)? {
            $($(#[$of_field])* $shown $field: $kind,)+
        }

        impl $(<$life>)? $view $(<$life>)? {
            /// Shows it.
            $visible fn of($($from: $source),+) -> Self {
                Self { $($field: $value,)+ }
            }
        }
    )+};
}
