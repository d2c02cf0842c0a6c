//! The printer's output, compared with files in `tests/golden`.
//! `RESURGAM_BLESS=1 cargo test -p resurgam-page` writes them anew.

use resurgam_base::{Lsn, ObjectId, PageId, SlotId, TxId};
use resurgam_page::boot::{self, Boot};
use resurgam_page::leaf::{Earlier, EarlierTag, LeafBuilder, VersionPtr};
use resurgam_page::{PageBuf, PageType, Treatment, diff, inner, op, overflow, print, space, version};

fn golden(name: &str, got: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RESURGAM_BLESS").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{path} differs; the printer gave:\n{got}");
}

fn apply(page: &mut PageBuf, id: u64, body: &[u8]) {
    op::apply(page, PageId(id), body, Lsn(4660)).unwrap();
    page.seal();
}

fn leaf_body() -> Vec<u8> {
    let mut body = Vec::new();
    op::format(&mut body, PageType::Leaf, 0, ObjectId(3), b"apple", Some(b"zebra"));
    let mut d = Vec::new();
    diff::diff(b"price 12", b"price 10", &mut d);
    let pointer = VersionPtr { page: PageId(88), slot: SlotId(4) };
    let tag = EarlierTag { ghost: false, xid: TxId(5), offrow: Some(pointer) };
    let records = [
        LeafBuilder::plain(b"apple", b"red"),
        LeafBuilder::inserted(TxId(9), b"banana", &[0, 1, 2, 0xff]),
        LeafBuilder { earlier: Earlier::InRow(tag, &d), ..LeafBuilder::inserted(TxId(9), b"cherry", b"price 12") },
        LeafBuilder {
            ghost: true,
            earlier: Earlier::OffRow(pointer),
            ..LeafBuilder::inserted(TxId(11), b"date", &[7; 40])
        },
    ];
    for (i, record) in records.iter().enumerate() {
        op::insert(&mut body, SlotId(i as u16), &record.encode().unwrap());
    }
    body
}

#[test]
fn leaf() {
    let mut page = PageBuf::zeroed();
    apply(&mut page, 7, &leaf_body());
    golden("leaf", &print::page(&page));
}

#[test]
fn damaged_leaf() {
    let mut page = PageBuf::zeroed();
    apply(&mut page, 7, &leaf_body());
    let (offset, _) = page.slot_entry(SlotId(1));
    page.as_bytes_mut()[offset as usize] = 0xee;
    page.as_bytes_mut()[64 + 4 * 2] = 0xff;
    page.set_flags(0xf0);
    golden("damaged_leaf", &print::page(&page));
    page.set_type_byte(200);
    golden("unknown_type", &print::page(&page));
}

#[test]
fn inner_page() {
    let mut body = Vec::new();
    op::format(&mut body, PageType::Inner, 1, ObjectId(3), b"", None);
    let records = [inner::encode(b"", PageId(7)), inner::encode(b"mango", PageId(8))];
    op::insert_many(&mut body, SlotId(0), records.iter().map(Vec::as_slice));
    let mut page = PageBuf::zeroed();
    apply(&mut page, 6, &body);
    golden("inner", &print::page(&page));
}

#[test]
fn version_page() {
    let mut body = Vec::new();
    op::format(&mut body, PageType::Version, 0, ObjectId(1), b"", None);
    let mut record = Vec::new();
    let leaf = LeafBuilder::inserted(TxId(9), b"key", b"value").encode().unwrap();
    version::encode_into(ObjectId(3), TxId(12), &leaf, &mut record);
    op::insert(&mut body, SlotId(0), &record);
    let mut page = PageBuf::zeroed();
    apply(&mut page, 88, &body);
    golden("version", &print::page(&page));
}

#[test]
fn other_pages() {
    let mut text = String::new();
    let mut page = PageBuf::zeroed();
    text += &print::page(&page);

    let mut body = Vec::new();
    op::format(&mut body, PageType::Boot, 0, ObjectId::NONE, b"", None);
    let fields = Boot { catalog_root: PageId(2), catalog_object: ObjectId(1), ..Boot::new([0xab; 16], 5) };
    op::set_bytes(&mut body, boot::OFFSET as u16, &fields.encode());
    apply(&mut page, 0, &body);
    text += &print::page(&page);

    let mut body = Vec::new();
    op::format(&mut body, PageType::SpaceMap, 0, ObjectId::NONE, b"", None);
    op::set_bytes(&mut body, space::owner_offset(2) as u16, &7u32.to_le_bytes());
    op::set_bytes(&mut body, space::pfs_offset(PageId(5121)) as u16, &[space::PFS_ALLOCATED]);
    op::set_bytes(&mut body, space::pfs_offset(PageId(5138)) as u16, &[3, 5, 8]);
    apply(&mut page, 5121, &body);
    text += &print::page(&page);

    let mut body = Vec::new();
    op::format(&mut body, PageType::Overflow, 0, ObjectId(3), b"", None);
    op::set_bytes(&mut body, 64, &overflow::payload(PageId(78), resurgam_base::TxId(9), &[b'x'; 100]).unwrap());
    apply(&mut page, 77, &body);
    text += &print::page(&page);
    golden("other_pages", &text);
}

#[test]
fn operations() {
    let mut body = leaf_body();
    op::remove(&mut body, SlotId(1));
    op::remove_many(&mut body, SlotId(1), 2);
    op::replace(&mut body, SlotId(0), b"whole");
    op::patch(&mut body, SlotId(0), b"price 12", b"price 10");
    op::insert_many(&mut body, SlotId(1), [&b"one"[..], b"two"]);
    op::truncate(&mut body, SlotId(1), Some(b"m"));
    op::set_fences(&mut body, b"", None);
    op::set_flags(&mut body, 1, 2);
    op::set_bytes(&mut body, 64, b"bytes");
    op::image(&mut body, &PageBuf::zeroed());
    op::clean_rows(
        &mut body,
        &[(SlotId(0), Treatment::Strip), (SlotId(1), Treatment::Strip), (SlotId(4), Treatment::Revert)],
    );
    body.push(99);
    golden("operations", &print::ops(&body));
}
