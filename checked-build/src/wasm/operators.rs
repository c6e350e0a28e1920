//! Operators that take values and give one, as C: `$0` and `$1` are what they take.

use super::types::Type::{self, F32, F64, I32, I64};
use wasmparser::Operator;

/// What it takes, what it gives, and how.
pub type Simple = (&'static [Type], Type, &'static str);

macro_rules! simple {
    ($op:expr; $($name:ident $takes:tt $gives:ident $text:literal;)*) => {
        match $op {
            $(Operator::$name => Some((&$takes, $gives, $text)),)*
            _ => None,
        }
    };
}

/// None if it is another kind of operator.
pub fn simple(operator: &Operator<'_>) -> Option<Simple> {
    simple! { operator;
        I32Eqz [I32] I32 "!$0";
        I32Eq [I32, I32] I32 "$0 == $1";
        I32Ne [I32, I32] I32 "$0 != $1";
        I32LtS [I32, I32] I32 "(s32)$0 < (s32)$1";
        I32LtU [I32, I32] I32 "$0 < $1";
        I32GtS [I32, I32] I32 "(s32)$0 > (s32)$1";
        I32GtU [I32, I32] I32 "$0 > $1";
        I32LeS [I32, I32] I32 "(s32)$0 <= (s32)$1";
        I32LeU [I32, I32] I32 "$0 <= $1";
        I32GeS [I32, I32] I32 "(s32)$0 >= (s32)$1";
        I32GeU [I32, I32] I32 "$0 >= $1";
        I64Eqz [I64] I32 "!$0";
        I64Eq [I64, I64] I32 "$0 == $1";
        I64Ne [I64, I64] I32 "$0 != $1";
        I64LtS [I64, I64] I32 "(s64)$0 < (s64)$1";
        I64LtU [I64, I64] I32 "$0 < $1";
        I64GtS [I64, I64] I32 "(s64)$0 > (s64)$1";
        I64GtU [I64, I64] I32 "$0 > $1";
        I64LeS [I64, I64] I32 "(s64)$0 <= (s64)$1";
        I64LeU [I64, I64] I32 "$0 <= $1";
        I64GeS [I64, I64] I32 "(s64)$0 >= (s64)$1";
        I64GeU [I64, I64] I32 "$0 >= $1";
        F32Eq [F32, F32] I32 "$0 == $1";
        F32Ne [F32, F32] I32 "$0 != $1";
        F32Lt [F32, F32] I32 "$0 < $1";
        F32Gt [F32, F32] I32 "$0 > $1";
        F32Le [F32, F32] I32 "$0 <= $1";
        F32Ge [F32, F32] I32 "$0 >= $1";
        F64Eq [F64, F64] I32 "$0 == $1";
        F64Ne [F64, F64] I32 "$0 != $1";
        F64Lt [F64, F64] I32 "$0 < $1";
        F64Gt [F64, F64] I32 "$0 > $1";
        F64Le [F64, F64] I32 "$0 <= $1";
        F64Ge [F64, F64] I32 "$0 >= $1";

        I32Clz [I32] I32 "$0 ? __builtin_clz($0) : 32";
        I32Ctz [I32] I32 "$0 ? __builtin_ctz($0) : 32";
        I32Popcnt [I32] I32 "i32_popcnt($0)";
        I32Add [I32, I32] I32 "$0 + $1";
        I32Sub [I32, I32] I32 "$0 - $1";
        I32Mul [I32, I32] I32 "$0 * $1";
        I32DivS [I32, I32] I32 "i32_div_s($0, $1)";
        I32DivU [I32, I32] I32 "i32_div_u($0, $1)";
        I32RemS [I32, I32] I32 "i32_rem_s($0, $1)";
        I32RemU [I32, I32] I32 "i32_rem_u($0, $1)";
        I32And [I32, I32] I32 "$0 & $1";
        I32Or [I32, I32] I32 "$0 | $1";
        I32Xor [I32, I32] I32 "$0 ^ $1";
        I32Shl [I32, I32] I32 "$0 << ($1 & 31)";
        I32ShrS [I32, I32] I32 "(s32)$0 >> ($1 & 31)";
        I32ShrU [I32, I32] I32 "$0 >> ($1 & 31)";
        I32Rotl [I32, I32] I32 "i32_rotl($0, $1)";
        I32Rotr [I32, I32] I32 "i32_rotr($0, $1)";
        I64Clz [I64] I64 "$0 ? __builtin_clzl($0) : 64";
        I64Ctz [I64] I64 "$0 ? __builtin_ctzl($0) : 64";
        I64Popcnt [I64] I64 "i64_popcnt($0)";
        I64Add [I64, I64] I64 "$0 + $1";
        I64Sub [I64, I64] I64 "$0 - $1";
        I64Mul [I64, I64] I64 "$0 * $1";
        I64DivS [I64, I64] I64 "i64_div_s($0, $1)";
        I64DivU [I64, I64] I64 "i64_div_u($0, $1)";
        I64RemS [I64, I64] I64 "i64_rem_s($0, $1)";
        I64RemU [I64, I64] I64 "i64_rem_u($0, $1)";
        I64And [I64, I64] I64 "$0 & $1";
        I64Or [I64, I64] I64 "$0 | $1";
        I64Xor [I64, I64] I64 "$0 ^ $1";
        I64Shl [I64, I64] I64 "$0 << ($1 & 63)";
        I64ShrS [I64, I64] I64 "(s64)$0 >> ($1 & 63)";
        I64ShrU [I64, I64] I64 "$0 >> ($1 & 63)";
        I64Rotl [I64, I64] I64 "i64_rotl($0, $1)";
        I64Rotr [I64, I64] I64 "i64_rotr($0, $1)";

        F32Abs [F32] F32 "f32_abs($0)";
        F32Neg [F32] F32 "f32_neg($0)";
        F32Ceil [F32] F32 "__builtin_ceilf($0)";
        F32Floor [F32] F32 "__builtin_floorf($0)";
        F32Trunc [F32] F32 "__builtin_truncf($0)";
        F32Nearest [F32] F32 "__builtin_rintf($0)";
        F32Sqrt [F32] F32 "__builtin_sqrtf($0)";
        F32Add [F32, F32] F32 "$0 + $1";
        F32Sub [F32, F32] F32 "$0 - $1";
        F32Mul [F32, F32] F32 "$0 * $1";
        F32Div [F32, F32] F32 "$0 / $1";
        F32Min [F32, F32] F32 "f32_min($0, $1)";
        F32Max [F32, F32] F32 "f32_max($0, $1)";
        F32Copysign [F32, F32] F32 "f32_copysign($0, $1)";
        F64Abs [F64] F64 "f64_abs($0)";
        F64Neg [F64] F64 "f64_neg($0)";
        F64Ceil [F64] F64 "__builtin_ceil($0)";
        F64Floor [F64] F64 "__builtin_floor($0)";
        F64Trunc [F64] F64 "__builtin_trunc($0)";
        F64Nearest [F64] F64 "__builtin_rint($0)";
        F64Sqrt [F64] F64 "__builtin_sqrt($0)";
        F64Add [F64, F64] F64 "$0 + $1";
        F64Sub [F64, F64] F64 "$0 - $1";
        F64Mul [F64, F64] F64 "$0 * $1";
        F64Div [F64, F64] F64 "$0 / $1";
        F64Min [F64, F64] F64 "f64_min($0, $1)";
        F64Max [F64, F64] F64 "f64_max($0, $1)";
        F64Copysign [F64, F64] F64 "f64_copysign($0, $1)";

        I32WrapI64 [I64] I32 "(u32)$0";
        I32TruncF32S [F32] I32 "i32_trunc_f32_s($0)";
        I32TruncF32U [F32] I32 "i32_trunc_f32_u($0)";
        I32TruncF64S [F64] I32 "i32_trunc_f64_s($0)";
        I32TruncF64U [F64] I32 "i32_trunc_f64_u($0)";
        I64ExtendI32S [I32] I64 "(s64)(s32)$0";
        I64ExtendI32U [I32] I64 "$0";
        I64TruncF32S [F32] I64 "i64_trunc_f32_s($0)";
        I64TruncF32U [F32] I64 "i64_trunc_f32_u($0)";
        I64TruncF64S [F64] I64 "i64_trunc_f64_s($0)";
        I64TruncF64U [F64] I64 "i64_trunc_f64_u($0)";
        F32ConvertI32S [I32] F32 "(f32)(s32)$0";
        F32ConvertI32U [I32] F32 "(f32)$0";
        F32ConvertI64S [I64] F32 "(f32)(s64)$0";
        F32ConvertI64U [I64] F32 "(f32)$0";
        F32DemoteF64 [F64] F32 "(f32)$0";
        F64ConvertI32S [I32] F64 "(f64)(s32)$0";
        F64ConvertI32U [I32] F64 "(f64)$0";
        F64ConvertI64S [I64] F64 "(f64)(s64)$0";
        F64ConvertI64U [I64] F64 "(f64)$0";
        F64PromoteF32 [F32] F64 "f64_promote($0)";
        I32ReinterpretF32 [F32] I32 "f32_bits($0)";
        I64ReinterpretF64 [F64] I64 "f64_bits($0)";
        F32ReinterpretI32 [I32] F32 "f32_of($0)";
        F64ReinterpretI64 [I64] F64 "f64_of($0)";
        I32Extend8S [I32] I32 "(s32)(s8)$0";
        I32Extend16S [I32] I32 "(s32)(s16)$0";
        I64Extend8S [I64] I64 "(s64)(s8)$0";
        I64Extend16S [I64] I64 "(s64)(s16)$0";
        I64Extend32S [I64] I64 "(s64)(s32)$0";
        I32TruncSatF32S [F32] I32 "i32_trunc_f32_s_sat($0)";
        I32TruncSatF32U [F32] I32 "i32_trunc_f32_u_sat($0)";
        I32TruncSatF64S [F64] I32 "i32_trunc_f64_s_sat($0)";
        I32TruncSatF64U [F64] I32 "i32_trunc_f64_u_sat($0)";
        I64TruncSatF32S [F32] I64 "i64_trunc_f32_s_sat($0)";
        I64TruncSatF32U [F32] I64 "i64_trunc_f32_u_sat($0)";
        I64TruncSatF64S [F64] I64 "i64_trunc_f64_s_sat($0)";
        I64TruncSatF64U [F64] I64 "i64_trunc_f64_u_sat($0)";
    }
}

/// A load or a store: its function in runtime.h, the type, its offset; true for a load.
pub fn access(operator: &Operator<'_>) -> Option<(&'static str, Type, u64, bool)> {
    macro_rules! access {
        ($($name:ident $function:literal $type:ident $load:literal;)*) => {
            match operator {
                $(Operator::$name { memarg } => Some(($function, $type, memarg.offset, $load)),)*
                _ => None,
            }
        };
    }
    access! {
        I32Load "i32_load" I32 true;
        I64Load "i64_load" I64 true;
        F32Load "f32_load" F32 true;
        F64Load "f64_load" F64 true;
        I32Load8S "i32_load8_s" I32 true;
        I32Load8U "i32_load8_u" I32 true;
        I32Load16S "i32_load16_s" I32 true;
        I32Load16U "i32_load16_u" I32 true;
        I64Load8S "i64_load8_s" I64 true;
        I64Load8U "i64_load8_u" I64 true;
        I64Load16S "i64_load16_s" I64 true;
        I64Load16U "i64_load16_u" I64 true;
        I64Load32S "i64_load32_s" I64 true;
        I64Load32U "i64_load32_u" I64 true;
        I32Store "i32_store" I32 false;
        I64Store "i64_store" I64 false;
        F32Store "f32_store" F32 false;
        F64Store "f64_store" F64 false;
        I32Store8 "i32_store8" I32 false;
        I32Store16 "i32_store16" I32 false;
        I64Store8 "i64_store8" I64 false;
        I64Store16 "i64_store16" I64 false;
        I64Store32 "i64_store32" I64 false;
    }
}
