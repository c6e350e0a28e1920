//! Forms of SSE to SSE4.2 and AVX to AVX2: no gathers, whose addresses no single
//! register holds, no EVEX, no MMX registers, nothing that reads or sets MXCSR.

use crate::form::operands::*;
use crate::form::Encoding::{Both, Legacy, Vex};
use crate::form::Map::{self, M0F, M0F38, M0F3A};
use crate::form::Prefix::{self, None as NP, P66, PF2, PF3};
use crate::form::{Form, Op};

type Operands = &'static [Op];

/// With 0F before it, in both encodings.
const fn two(prefix: Prefix, opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, M0F, opcode, operands).encoded(Both, prefix)
}

/// With 66 0F 38 before it, in both encodings.
const fn o38(opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, M0F38, opcode, operands).encoded(Both, P66)
}

/// With 66 0F 3A before it, in both encodings.
const fn o3a(opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, M0F3A, opcode, operands).encoded(Both, P66)
}

/// With VEX alone.
const fn vex(map: Map, opcode: u8, name: &'static str, operands: Operands) -> Form {
    Form::new(name, map, opcode, operands).encoded(Vex, P66)
}

/// A shift by an immediate: one of a group.
const fn shift(opcode: u8, extension: u8, name: &'static str) -> Form {
    two(P66, opcode, name, &[Hx, Ux, Ib]).extension(extension)
}

/// An operation on integers in a whole vector.
const fn int(opcode: u8, name: &'static str) -> Form {
    two(P66, opcode, name, &[Vx, Hx, Wx])
}

/// The same, in the map of 0F 38.
const fn int38(opcode: u8, name: &'static str) -> Form {
    o38(opcode, name, &[Vx, Hx, Wx])
}

#[rustfmt::skip]
pub(super) const MOVES: &[Form] = &[
    two(NP, 0x10, "movups", &[Vx, Wx]), two(NP, 0x11, "movups", &[Wx, Vx]),
    two(P66, 0x10, "movupd", &[Vx, Wx]), two(P66, 0x11, "movupd", &[Wx, Vx]),
    two(PF3, 0x10, "movss", &[Vdq, Md]), two(PF3, 0x10, "movss", &[Vdq, Hdq, Udq]),
    two(PF3, 0x11, "movss", &[Md, Vdq]),
    two(PF2, 0x10, "movsd", &[Vdq, Mq]), two(PF2, 0x10, "movsd", &[Vdq, Hdq, Udq]),
    two(PF2, 0x11, "movsd", &[Mq, Vdq]),
    two(NP, 0x12, "movlps", &[Vdq, Hdq, Mq]), two(NP, 0x12, "movhlps", &[Vdq, Hdq, Udq]),
    two(NP, 0x13, "movlps", &[Mq, Vdq]),
    two(P66, 0x12, "movlpd", &[Vdq, Hdq, Mq]), two(P66, 0x13, "movlpd", &[Mq, Vdq]),
    two(NP, 0x16, "movhps", &[Vdq, Hdq, Mq]), two(NP, 0x16, "movlhps", &[Vdq, Hdq, Udq]),
    two(NP, 0x17, "movhps", &[Mq, Vdq]),
    two(P66, 0x16, "movhpd", &[Vdq, Hdq, Mq]), two(P66, 0x17, "movhpd", &[Mq, Vdq]),
    two(PF2, 0x12, "movddup", &[Vdq, Wq]),
    two(PF3, 0x12, "movsldup", &[Vx, Wx]), two(PF3, 0x16, "movshdup", &[Vx, Wx]),
    two(NP, 0x28, "movaps", &[Vx, Wx]), two(NP, 0x29, "movaps", &[Wx, Vx]),
    two(P66, 0x28, "movapd", &[Vx, Wx]), two(P66, 0x29, "movapd", &[Wx, Vx]),
    two(NP, 0x2b, "movntps", &[Mx, Vx]), two(P66, 0x2b, "movntpd", &[Mx, Vx]),
    two(P66, 0xe7, "movntdq", &[Mx, Vx]),
    two(P66, 0x6e, "movd", &[Vdq, Ey]), two(P66, 0x7e, "movd", &[Ey, Vdq]),
    two(PF3, 0x7e, "movq", &[Vdq, Wq]), two(P66, 0xd6, "movq", &[Wq, Vdq]),
    two(P66, 0x6f, "movdqa", &[Vx, Wx]), two(P66, 0x7f, "movdqa", &[Wx, Vx]),
    two(PF3, 0x6f, "movdqu", &[Vx, Wx]), two(PF3, 0x7f, "movdqu", &[Wx, Vx]),
    two(PF2, 0xf0, "lddqu", &[Vx, Mx]),
    two(NP, 0x50, "movmskps", &[Gd, Ux]), two(P66, 0x50, "movmskpd", &[Gd, Ux]),
    two(P66, 0xd7, "pmovmskb", &[Gd, Ux]),
    two(NP, 0x14, "unpcklps", &[Vx, Hx, Wx]), two(P66, 0x14, "unpcklpd", &[Vx, Hx, Wx]),
    two(NP, 0x15, "unpckhps", &[Vx, Hx, Wx]), two(P66, 0x15, "unpckhpd", &[Vx, Hx, Wx]),
    two(NP, 0xc6, "shufps", &[Vx, Hx, Wx, Ib]), two(P66, 0xc6, "shufpd", &[Vx, Hx, Wx, Ib]),
    two(P66, 0x70, "pshufd", &[Vx, Wx, Ib]), two(PF3, 0x70, "pshufhw", &[Vx, Wx, Ib]),
    two(PF2, 0x70, "pshuflw", &[Vx, Wx, Ib]),
    two(P66, 0xc4, "pinsrw", &[Vdq, Hdq, Ew, Ib]), two(P66, 0xc5, "pextrw", &[Gd, Udq, Ib]),
    o3a(0x14, "pextrb", &[Edb, Vdq, Ib]), o3a(0x15, "pextrw", &[Mw, Vdq, Ib]),
    o3a(0x16, "pextrd", &[Ey, Vdq, Ib]), o3a(0x17, "extractps", &[Ed, Vdq, Ib]),
    o3a(0x20, "pinsrb", &[Vdq, Hdq, Edb, Ib]), o3a(0x21, "insertps", &[Vdq, Hdq, Wd, Ib]),
    o3a(0x22, "pinsrd", &[Vdq, Hdq, Ey, Ib]),
];

#[rustfmt::skip]
pub(super) const FLOATS: &[Form] = &[
    two(PF3, 0x2a, "cvtsi2ss", &[Vdq, Hdq, Ey]), two(PF2, 0x2a, "cvtsi2sd", &[Vdq, Hdq, Ey]),
    two(PF3, 0x2c, "cvttss2si", &[Gy, Wd]), two(PF2, 0x2c, "cvttsd2si", &[Gy, Wq]),
    two(PF3, 0x2d, "cvtss2si", &[Gy, Wd]), two(PF2, 0x2d, "cvtsd2si", &[Gy, Wq]),
    two(NP, 0x2e, "ucomiss", &[Vdq, Wd]), two(P66, 0x2e, "ucomisd", &[Vdq, Wq]),
    two(NP, 0x2f, "comiss", &[Vdq, Wd]), two(P66, 0x2f, "comisd", &[Vdq, Wq]),
    two(NP, 0x51, "sqrtps", &[Vx, Wx]), two(P66, 0x51, "sqrtpd", &[Vx, Wx]),
    two(PF3, 0x51, "sqrtss", &[Vdq, Hdq, Wd]), two(PF2, 0x51, "sqrtsd", &[Vdq, Hdq, Wq]),
    two(NP, 0x52, "rsqrtps", &[Vx, Wx]), two(PF3, 0x52, "rsqrtss", &[Vdq, Hdq, Wd]),
    two(NP, 0x53, "rcpps", &[Vx, Wx]), two(PF3, 0x53, "rcpss", &[Vdq, Hdq, Wd]),
    two(NP, 0x54, "andps", &[Vx, Hx, Wx]), two(P66, 0x54, "andpd", &[Vx, Hx, Wx]),
    two(NP, 0x55, "andnps", &[Vx, Hx, Wx]), two(P66, 0x55, "andnpd", &[Vx, Hx, Wx]),
    two(NP, 0x56, "orps", &[Vx, Hx, Wx]), two(P66, 0x56, "orpd", &[Vx, Hx, Wx]),
    two(NP, 0x57, "xorps", &[Vx, Hx, Wx]), two(P66, 0x57, "xorpd", &[Vx, Hx, Wx]),
    two(NP, 0x58, "addps", &[Vx, Hx, Wx]), two(P66, 0x58, "addpd", &[Vx, Hx, Wx]),
    two(PF3, 0x58, "addss", &[Vdq, Hdq, Wd]), two(PF2, 0x58, "addsd", &[Vdq, Hdq, Wq]),
    two(NP, 0x59, "mulps", &[Vx, Hx, Wx]), two(P66, 0x59, "mulpd", &[Vx, Hx, Wx]),
    two(PF3, 0x59, "mulss", &[Vdq, Hdq, Wd]), two(PF2, 0x59, "mulsd", &[Vdq, Hdq, Wq]),
    two(NP, 0x5a, "cvtps2pd", &[Vx, Wx2]), two(P66, 0x5a, "cvtpd2ps", &[Vdq, Wx]),
    two(PF3, 0x5a, "cvtss2sd", &[Vdq, Hdq, Wd]), two(PF2, 0x5a, "cvtsd2ss", &[Vdq, Hdq, Wq]),
    two(NP, 0x5b, "cvtdq2ps", &[Vx, Wx]), two(P66, 0x5b, "cvtps2dq", &[Vx, Wx]),
    two(PF3, 0x5b, "cvttps2dq", &[Vx, Wx]),
    two(NP, 0x5c, "subps", &[Vx, Hx, Wx]), two(P66, 0x5c, "subpd", &[Vx, Hx, Wx]),
    two(PF3, 0x5c, "subss", &[Vdq, Hdq, Wd]), two(PF2, 0x5c, "subsd", &[Vdq, Hdq, Wq]),
    two(NP, 0x5d, "minps", &[Vx, Hx, Wx]), two(P66, 0x5d, "minpd", &[Vx, Hx, Wx]),
    two(PF3, 0x5d, "minss", &[Vdq, Hdq, Wd]), two(PF2, 0x5d, "minsd", &[Vdq, Hdq, Wq]),
    two(NP, 0x5e, "divps", &[Vx, Hx, Wx]), two(P66, 0x5e, "divpd", &[Vx, Hx, Wx]),
    two(PF3, 0x5e, "divss", &[Vdq, Hdq, Wd]), two(PF2, 0x5e, "divsd", &[Vdq, Hdq, Wq]),
    two(NP, 0x5f, "maxps", &[Vx, Hx, Wx]), two(P66, 0x5f, "maxpd", &[Vx, Hx, Wx]),
    two(PF3, 0x5f, "maxss", &[Vdq, Hdq, Wd]), two(PF2, 0x5f, "maxsd", &[Vdq, Hdq, Wq]),
    two(P66, 0x7c, "haddpd", &[Vx, Hx, Wx]), two(PF2, 0x7c, "haddps", &[Vx, Hx, Wx]),
    two(P66, 0x7d, "hsubpd", &[Vx, Hx, Wx]), two(PF2, 0x7d, "hsubps", &[Vx, Hx, Wx]),
    two(P66, 0xd0, "addsubpd", &[Vx, Hx, Wx]), two(PF2, 0xd0, "addsubps", &[Vx, Hx, Wx]),
    two(NP, 0xc2, "cmpps", &[Vx, Hx, Wx, Ib]), two(P66, 0xc2, "cmppd", &[Vx, Hx, Wx, Ib]),
    two(PF3, 0xc2, "cmpss", &[Vdq, Hdq, Wd, Ib]), two(PF2, 0xc2, "cmpsd", &[Vdq, Hdq, Wq, Ib]),
    two(PF3, 0xe6, "cvtdq2pd", &[Vx, Wx2]), two(PF2, 0xe6, "cvtpd2dq", &[Vdq, Wx]),
    two(P66, 0xe6, "cvttpd2dq", &[Vdq, Wx]),
    o3a(0x08, "roundps", &[Vx, Wx, Ib]), o3a(0x09, "roundpd", &[Vx, Wx, Ib]),
    o3a(0x0a, "roundss", &[Vdq, Hdq, Wd, Ib]), o3a(0x0b, "roundsd", &[Vdq, Hdq, Wq, Ib]),
    o3a(0x0c, "blendps", &[Vx, Hx, Wx, Ib]), o3a(0x0d, "blendpd", &[Vx, Hx, Wx, Ib]),
];

#[rustfmt::skip]
pub(super) const INTEGERS: &[Form] = &[
    int(0x60, "punpcklbw"), int(0x61, "punpcklwd"), int(0x62, "punpckldq"),
    int(0x63, "packsswb"), int(0x64, "pcmpgtb"), int(0x65, "pcmpgtw"), int(0x66, "pcmpgtd"),
    int(0x67, "packuswb"), int(0x68, "punpckhbw"), int(0x69, "punpckhwd"),
    int(0x6a, "punpckhdq"), int(0x6b, "packssdw"), int(0x6c, "punpcklqdq"),
    int(0x6d, "punpckhqdq"), int(0x74, "pcmpeqb"), int(0x75, "pcmpeqw"), int(0x76, "pcmpeqd"),
    shift(0x71, 2, "psrlw"), shift(0x71, 4, "psraw"),
    shift(0x71, 6, "psllw"), shift(0x72, 2, "psrld"),
    shift(0x72, 4, "psrad"), shift(0x72, 6, "pslld"),
    shift(0x73, 2, "psrlq"), shift(0x73, 3, "psrldq"),
    shift(0x73, 6, "psllq"), shift(0x73, 7, "pslldq"),
    two(P66, 0xd1, "psrlw", &[Vx, Hx, Wdq]), two(P66, 0xd2, "psrld", &[Vx, Hx, Wdq]),
    two(P66, 0xd3, "psrlq", &[Vx, Hx, Wdq]), two(P66, 0xe1, "psraw", &[Vx, Hx, Wdq]),
    two(P66, 0xe2, "psrad", &[Vx, Hx, Wdq]), two(P66, 0xf1, "psllw", &[Vx, Hx, Wdq]),
    two(P66, 0xf2, "pslld", &[Vx, Hx, Wdq]), two(P66, 0xf3, "psllq", &[Vx, Hx, Wdq]),
    int(0xd4, "paddq"), int(0xd5, "pmullw"), int(0xd8, "psubusb"), int(0xd9, "psubusw"),
    int(0xda, "pminub"), int(0xdb, "pand"), int(0xdc, "paddusb"), int(0xdd, "paddusw"),
    int(0xde, "pmaxub"), int(0xdf, "pandn"), int(0xe0, "pavgb"), int(0xe3, "pavgw"),
    int(0xe4, "pmulhuw"), int(0xe5, "pmulhw"), int(0xe8, "psubsb"), int(0xe9, "psubsw"),
    int(0xea, "pminsw"), int(0xeb, "por"), int(0xec, "paddsb"), int(0xed, "paddsw"),
    int(0xee, "pmaxsw"), int(0xef, "pxor"), int(0xf4, "pmuludq"), int(0xf5, "pmaddwd"),
    int(0xf6, "psadbw"), int(0xf8, "psubb"), int(0xf9, "psubw"), int(0xfa, "psubd"),
    int(0xfb, "psubq"), int(0xfc, "paddb"), int(0xfd, "paddw"), int(0xfe, "paddd"),
    int38(0x00, "pshufb"), int38(0x01, "phaddw"), int38(0x02, "phaddd"), int38(0x03, "phaddsw"),
    int38(0x04, "pmaddubsw"), int38(0x05, "phsubw"), int38(0x06, "phsubd"),
    int38(0x08, "psignb"), int38(0x09, "psignw"), int38(0x0a, "psignd"), int38(0x0b, "pmulhrsw"),
    o38(0x1c, "pabsb", &[Vx, Wx]), o38(0x1d, "pabsw", &[Vx, Wx]), o38(0x1e, "pabsd", &[Vx, Wx]),
    o38(0x17, "ptest", &[Vx, Wx]),
    o38(0x20, "pmovsxbw", &[Vx, Wx2]), o38(0x21, "pmovsxbd", &[Vx, Wx4]),
    o38(0x22, "pmovsxbq", &[Vx, Wx8]), o38(0x23, "pmovsxwd", &[Vx, Wx2]),
    o38(0x24, "pmovsxwq", &[Vx, Wx4]), o38(0x25, "pmovsxdq", &[Vx, Wx2]),
    o38(0x30, "pmovzxbw", &[Vx, Wx2]), o38(0x31, "pmovzxbd", &[Vx, Wx4]),
    o38(0x32, "pmovzxbq", &[Vx, Wx8]), o38(0x33, "pmovzxwd", &[Vx, Wx2]),
    o38(0x34, "pmovzxwq", &[Vx, Wx4]), o38(0x35, "pmovzxdq", &[Vx, Wx2]),
    int38(0x28, "pmuldq"), int38(0x29, "pcmpeqq"), int38(0x2b, "packusdw"),
    int38(0x37, "pcmpgtq"), int38(0x38, "pminsb"), int38(0x39, "pminsd"), int38(0x3a, "pminuw"),
    int38(0x3b, "pminud"), int38(0x3c, "pmaxsb"), int38(0x3d, "pmaxsd"), int38(0x3e, "pmaxuw"),
    int38(0x3f, "pmaxud"), int38(0x40, "pmulld"), o38(0x41, "phminposuw", &[Vdq, Wdq]),
    o3a(0x0e, "pblendw", &[Vx, Hx, Wx, Ib]), o3a(0x0f, "palignr", &[Vx, Hx, Wx, Ib]),
    o38(0x10, "pblendvb", &[Vdq, Wdq]).encoded(Legacy, P66),
    o38(0x14, "blendvps", &[Vdq, Wdq]).encoded(Legacy, P66),
    o38(0x15, "blendvpd", &[Vdq, Wdq]).encoded(Legacy, P66),
];

#[rustfmt::skip]
pub(super) const AVX: &[Form] = &[
    two(NP, 0x77, "zeroupper", &[]).encoded(Vex, NP),
    vex(M0F38, 0x0c, "permilps", &[Vx, Hx, Wx]), vex(M0F38, 0x0d, "permilpd", &[Vx, Hx, Wx]),
    vex(M0F38, 0x16, "permps", &[Vqq, Hqq, Wqq]), vex(M0F38, 0x36, "permd", &[Vqq, Hqq, Wqq]),
    vex(M0F38, 0x18, "broadcastss", &[Vx, Wd]), vex(M0F38, 0x19, "broadcastsd", &[Vqq, Wq]),
    vex(M0F38, 0x1a, "broadcastf128", &[Vqq, Mdq]),
    vex(M0F38, 0x5a, "broadcasti128", &[Vqq, Mdq]),
    vex(M0F38, 0x58, "pbroadcastd", &[Vx, Wd]), vex(M0F38, 0x59, "pbroadcastq", &[Vx, Wq]),
    vex(M0F38, 0x78, "pbroadcastb", &[Vx, Wb]), vex(M0F38, 0x79, "pbroadcastw", &[Vx, Ww]),
    vex(M0F38, 0x45, "psrlvd", &[Vx, Hx, Wx]), vex(M0F38, 0x45, "psrlvq", &[Vx, Hx, Wx]).wide(),
    vex(M0F38, 0x46, "psravd", &[Vx, Hx, Wx]),
    vex(M0F38, 0x47, "psllvd", &[Vx, Hx, Wx]), vex(M0F38, 0x47, "psllvq", &[Vx, Hx, Wx]).wide(),
    vex(M0F3A, 0x00, "permq", &[Vqq, Wqq, Ib]).wide(),
    vex(M0F3A, 0x01, "permpd", &[Vqq, Wqq, Ib]).wide(),
    vex(M0F3A, 0x02, "pblendd", &[Vx, Hx, Wx, Ib]),
    vex(M0F3A, 0x04, "permilps", &[Vx, Wx, Ib]), vex(M0F3A, 0x05, "permilpd", &[Vx, Wx, Ib]),
    vex(M0F3A, 0x06, "perm2f128", &[Vqq, Hqq, Wqq, Ib]),
    vex(M0F3A, 0x46, "perm2i128", &[Vqq, Hqq, Wqq, Ib]),
    vex(M0F3A, 0x18, "insertf128", &[Vqq, Hqq, Wdq, Ib]),
    vex(M0F3A, 0x38, "inserti128", &[Vqq, Hqq, Wdq, Ib]),
    vex(M0F3A, 0x19, "extractf128", &[Wdq, Vqq, Ib]),
    vex(M0F3A, 0x39, "extracti128", &[Wdq, Vqq, Ib]),
    vex(M0F3A, 0x4a, "blendvps", &[Vx, Hx, Wx, Lx]), vex(M0F3A, 0x4b, "blendvpd", &[Vx, Hx, Wx, Lx]),
    vex(M0F3A, 0x4c, "pblendvb", &[Vx, Hx, Wx, Lx]),
];
