//! Values computed by RocksDB and by the reference implementations.

use super::*;

#[test]
fn crc32c_and_its_mask() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(mask_crc(0xe306_9283), 0xc78a_b0e5);
    assert_eq!(mask_crc(crc32c(b"")), 0xa282_ead8);
    assert_eq!(unmask_crc(0xc78a_b0e5), 0xe306_9283);
    assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
}

/// The checksums of a block `hello` with its compression byte, as the trailers of the four kinds store them.
#[test]
fn checksums_of_blocks() {
    for (last, expected) in [
        (0u8, [0x838f_a897_u32, 0x76c3_f8e8, 0x2fec_4e26, 0x5c62_dcfd]),
        (7, [0xcb5d_ff03, 0x60b8_4af6, 0xe498_51e1, 0xac91_4612]),
    ] {
        let block = [b"hello", &[last][..]].concat();
        let xxh3 = xxh3_64(b"hello") as u32 ^ u32::from(last).wrapping_mul(0x6b90_83d9);
        assert_eq!([mask_crc(crc32c(&block)), xxh32(&block, 0), xxh64(&block, 0) as u32, xxh3], expected);
    }
}

#[test]
fn xxh3_is_the_released_one() {
    assert_eq!(xxh3_64(b"abc"), 0x78af_5f94_892f_3950);
    assert_eq!(xxh3_128_with_seed(b"", 0), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
}

#[test]
fn xxph3_is_the_preview() {
    assert_eq!(xxph3(b"abc"), 0xd39e_eb71_bb53_42e8);
    assert_eq!(xxph3(b"key00001"), 0xd01b_7c7e_7790_97a0);
    let rows = [
        (0, 0x5342_c301_0fe1_dd04),
        (1, 0x7198_d737_cfe7_f386),
        (2, 0x391e_e7c9_8390_0289),
        (3, 0xc036_0a11_b479_1b98),
        (4, 0xf28e_842d_edde_83ae),
        (8, 0x223c_9d9c_7f17_db6e),
        (9, 0x9355_7756_b5da_e4dd),
        (16, 0x4bfe_2ff1_655e_8360),
        (17, 0x6dff_1ac9_6eef_2848),
        (64, 0x85a0_b130_6d97_b7f5),
        (128, 0x7aa5_db2c_8097_080b),
        (129, 0xa06d_8174_3056_cebc),
        (240, 0xd125_3a6d_ec8c_35fc),
        (241, 0xb78d_f601_6a18_c222),
        (1024, 0xa63b_91fd_35ca_4f09),
        (1025, 0x9593_6fd4_08f0_0c5e),
        (2048, 0x3b0a_be54_5fd1_dc29_u64),
    ];
    for (len, expected) in rows {
        let data: Vec<u8> = (0..len).map(|index| index as u8).collect();
        assert_eq!(xxph3(&data), expected, "{len} bytes");
    }
}

#[test]
fn hash32_reads_the_tail_as_signed() {
    assert_eq!(hash32(b"abc", 397), 0x1d9a_a392);
    assert_eq!(hash32(&[0xff, 0xfe, 0xfd], 397), 0xfc8b_11b5);
    assert_eq!(hash32(b"abc", 0xbc9f_1d34), 0x855d_012f);
    assert_eq!(hash32(b"", 0xbc9f_1d34), 0xbc9f_1d34);
}
