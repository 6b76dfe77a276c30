//! Readers for single JSON fields that take what they can instead of failing: one wrong-typed
//! field of a newer or broken child must not cost the whole record (R-Q-01).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string; a number or boolean as its text; anything else as the empty string.
///
/// # Errors
/// Only for broken JSON.
pub fn text<'de, D: Deserializer<'de>>(input: D) -> Result<Cow<'de, str>, D::Error> {
    Ok(opt_text(input)?.unwrap_or_default())
}

/// Like [`text`], with `None` for null, arrays and objects.
///
/// # Errors
/// Only for broken JSON.
pub fn opt_text<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Option<Cow<'de, str>>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("text")
        }
        fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(v)))
        }
        fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(v.to_owned())))
        }
        fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(if v { "true" } else { "false" })))
        }
        fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(v.to_string())))
        }
        fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(v.to_string())))
        }
        fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(v.to_string())))
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    }
    input.deserialize_any(Reader)
}

/// A list of strings; anything that is not one is left out.
///
/// # Errors
/// Only for broken JSON.
pub fn texts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Cow<'de, str>>, D::Error> {
    struct Item<'a>(Option<Cow<'a, str>>);
    impl<'de> serde::Deserialize<'de> for Item<'de> {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            opt_text(input).map(Self)
        }
    }
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Vec<Cow<'de, str>>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a list of texts")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(Item(item)) = seq.next_element()? {
                all.extend(item);
            }
            Ok(all)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Vec::new())
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
    }
    input.deserialize_any(Reader)
}

/// What a JSON scalar can be turned into.
pub trait Scalar: Sized {
    /// From a number.
    fn from_number(v: f64) -> Option<Self>;
    /// From a whole number that is not negative (no rounding through `f64`).
    fn from_whole(v: u64) -> Option<Self>;
    /// From a boolean.
    fn from_bool(v: bool) -> Option<Self>;
}

impl Scalar for u64 {
    fn from_number(v: f64) -> Option<Self> {
        // A float cast saturates: negatives become 0, too large ones the maximum.
        v.is_finite().then_some(v as Self)
    }
    fn from_whole(v: u64) -> Option<Self> {
        Some(v)
    }
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for i64 {
    fn from_number(v: f64) -> Option<Self> {
        v.is_finite().then_some(v as Self)
    }
    fn from_whole(v: u64) -> Option<Self> {
        Some(Self::try_from(v).unwrap_or(Self::MAX))
    }
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for u32 {
    fn from_number(v: f64) -> Option<Self> {
        v.is_finite().then_some(v as Self)
    }
    fn from_whole(v: u64) -> Option<Self> {
        Some(Self::try_from(v).unwrap_or(Self::MAX))
    }
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for f64 {
    fn from_number(v: f64) -> Option<Self> {
        v.is_finite().then_some(v)
    }
    fn from_whole(v: u64) -> Option<Self> {
        Some(v as Self)
    }
    fn from_bool(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for bool {
    fn from_number(_: f64) -> Option<Self> {
        None
    }
    fn from_whole(_: u64) -> Option<Self> {
        None
    }
    fn from_bool(v: bool) -> Option<Self> {
        Some(v)
    }
}

/// A number or boolean; `None` for anything else.
///
/// # Errors
/// Only for broken JSON.
pub fn opt<'de, D: Deserializer<'de>, T: Scalar>(input: D) -> Result<Option<T>, D::Error> {
    struct Reader<T>(PhantomData<T>);
    impl<'de, T: Scalar> Visitor<'de> for Reader<T> {
        type Value = Option<T>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a number or boolean")
        }
        fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
            Ok(T::from_bool(v))
        }
        fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
            Ok(T::from_whole(v))
        }
        fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
            Ok(T::from_number(v as f64))
        }
        fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
            Ok(T::from_number(v))
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    }
    input.deserialize_any(Reader(PhantomData))
}

/// Like [`opt`], with zero or `false` for anything else.
///
/// # Errors
/// Only for broken JSON.
pub fn or_zero<'de, D: Deserializer<'de>, T: Scalar + Default>(input: D) -> Result<T, D::Error> {
    Ok(opt(input)?.unwrap_or_default())
}
