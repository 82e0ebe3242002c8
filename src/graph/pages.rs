//! A number for each row or entity of a part, in pages that exist only where one was set.

/// Numbers in a page.
const PAGE: usize = 1024;

/// A sparse array of `u32` indices: what was never set is the default. O(1), without hashing.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
}

impl<T: Copy + Default + PartialEq> Pages<T> {
    pub(super) fn get(&self, index: u32) -> T {
        match self.pages.get(index as usize / PAGE) {
            Some(Some(page)) => page[index as usize % PAGE],
            _ => T::default(),
        }
    }

    pub(super) fn slot(&mut self, index: u32) -> &mut T {
        let page = index as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        &mut self.pages[page].get_or_insert_with(|| Box::new([T::default(); PAGE]))[index as usize % PAGE]
    }

    /// What is not the default, indices ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, T)> {
        let page = |(number, page): (usize, &Option<Box<[T; PAGE]>>)| {
            let values = page.as_ref().map_or(&[][..], |p| &p[..]);
            values.iter().enumerate().map(move |(i, v)| ((number * PAGE + i) as u32, *v)).collect::<Vec<_>>()
        };
        self.pages.iter().enumerate().filter(|(_, p)| p.is_some()).flat_map(page).filter(|(_, v)| *v != T::default())
    }
}
