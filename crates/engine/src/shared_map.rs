//! A map that is cheap to copy: the copy shares what neither changes.
//!
//! It is cut into parts by the hash of the keys; a copy is one pointer a part, and a change copies the
//! part that it concerns, if somebody else has it as well. So a new state of 50,000 entries costs a few
//! hundred, for each entry that is changed.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

const PARTS: usize = 256;

/// See the module.
#[derive(Clone)]
pub(crate) struct SharedMap<K, V> {
    parts: Box<[Arc<HashMap<K, V>>]>,
    hasher: DefaultHashBuilder,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        let empty = Arc::new(HashMap::new());
        Self { parts: vec![empty; PARTS].into_boxed_slice(), hasher: DefaultHashBuilder::default(), len: 0 }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> SharedMap<K, V> {
    fn part(&self, key: &K) -> usize {
        // Not the bits that the map within goes by.
        (self.hasher.hash_one(key) >> 24) as usize % PARTS
    }
    pub fn get(&self, key: &K) -> Option<&V> {
        self.parts[self.part(key)].get(key)
    }
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let part = self.part(&key);
        let old = Arc::make_mut(&mut self.parts[part]).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let part = self.part(key);
        if !self.parts[part].contains_key(key) {
            return None;
        }
        let old = Arc::make_mut(&mut self.parts[part]).remove(key);
        self.len -= usize::from(old.is_some());
        old
    }
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn copies_go_their_own_ways() {
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut all = vec![(SharedMap::default(), BTreeMap::new())];
        for _ in 0..20_000 {
            let at = random(all.len() as u64) as usize;
            let (map, model) = &mut all[at];
            let (key, value) = (random(3000), random(1 << 20));
            if random(3) == 0 {
                assert_eq!(map.remove(&key), model.remove(&key));
            } else {
                assert_eq!(map.insert(key, value), model.insert(key, value));
            }
            if random(500) == 0 {
                let copy = (map.clone(), model.clone());
                all.push(copy);
            }
        }
        for (map, model) in &all {
            assert_eq!(map.len(), model.len());
            assert_eq!(map.iter().map(|(k, v)| (*k, *v)).collect::<BTreeMap<_, _>>(), *model);
            assert!(
                (0..3000)
                    .all(|key| map.get(&key) == model.get(&key) && map.contains_key(&key) == model.contains_key(&key))
            );
        }
    }
}
