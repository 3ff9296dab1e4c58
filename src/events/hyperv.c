/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hyperv.c: names of what guests ask of Hyper-V, which KVM is to them. Numbers and names are those
 * of Microsoft's Hypervisor Top-Level Functional Specification; those that KVM handles, or passes
 * on.
 */
#include "kvmft/exit_names.h"
#include "arch.h"

static const struct exit_entry calls[] = {
	{ 0x0002, "HvCallFlushVirtualAddressSpace" }, { 0x0003, "HvCallFlushVirtualAddressList" },
	{ 0x0008, "HvCallNotifyLongSpinWait" }, { 0x000b, "HvCallSendSyntheticClusterIpi" },
	{ 0x0013, "HvCallFlushVirtualAddressSpaceEx" }, { 0x0014, "HvCallFlushVirtualAddressListEx" },
	{ 0x0015, "HvCallSendSyntheticClusterIpiEx" }, { 0x0050, "HvCallGetVpRegisters" },
	{ 0x0051, "HvCallSetVpRegisters" }, { 0x005c, "HvCallPostMessage" },
	{ 0x005d, "HvCallSignalEvent" }, { 0x0069, "HvCallPostDebugData" },
	{ 0x006a, "HvCallRetrieveDebugData" }, { 0x006b, "HvCallResetDebugSession" },
	{ 0x007e, "HvCallRetargetDeviceInterrupt" },
	{ 0x00af, "HvCallFlushGuestPhysicalAddressSpace" },
	{ 0x00b0, "HvCallFlushGuestPhysicalAddressList" },
	{ 0x8001, "HvExtCallQueryCapabilities" },
};

static const struct exit_entry msrs[] = {
	{ 0x40000000, "HV_X64_MSR_GUEST_OS_ID" }, { 0x40000001, "HV_X64_MSR_HYPERCALL" },
	{ 0x40000002, "HV_X64_MSR_VP_INDEX" }, { 0x40000003, "HV_X64_MSR_RESET" },
	{ 0x40000010, "HV_X64_MSR_VP_RUNTIME" }, { 0x40000020, "HV_X64_MSR_TIME_REF_COUNT" },
	{ 0x40000021, "HV_X64_MSR_REFERENCE_TSC" }, { 0x40000022, "HV_X64_MSR_TSC_FREQUENCY" },
	{ 0x40000023, "HV_X64_MSR_APIC_FREQUENCY" }, { 0x40000070, "HV_X64_MSR_EOI" },
	{ 0x40000071, "HV_X64_MSR_ICR" }, { 0x40000072, "HV_X64_MSR_TPR" },
	{ 0x40000073, "HV_X64_MSR_VP_ASSIST_PAGE" }, { 0x40000080, "HV_X64_MSR_SCONTROL" },
	{ 0x40000081, "HV_X64_MSR_SVERSION" }, { 0x40000082, "HV_X64_MSR_SIEFP" },
	{ 0x40000083, "HV_X64_MSR_SIMP" }, { 0x40000084, "HV_X64_MSR_EOM" },
	{ 0x40000090, "HV_X64_MSR_SINT0" }, { 0x40000091, "HV_X64_MSR_SINT1" },
	{ 0x40000092, "HV_X64_MSR_SINT2" }, { 0x40000093, "HV_X64_MSR_SINT3" },
	{ 0x40000094, "HV_X64_MSR_SINT4" }, { 0x40000095, "HV_X64_MSR_SINT5" },
	{ 0x40000096, "HV_X64_MSR_SINT6" }, { 0x40000097, "HV_X64_MSR_SINT7" },
	{ 0x40000098, "HV_X64_MSR_SINT8" }, { 0x40000099, "HV_X64_MSR_SINT9" },
	{ 0x4000009a, "HV_X64_MSR_SINT10" }, { 0x4000009b, "HV_X64_MSR_SINT11" },
	{ 0x4000009c, "HV_X64_MSR_SINT12" }, { 0x4000009d, "HV_X64_MSR_SINT13" },
	{ 0x4000009e, "HV_X64_MSR_SINT14" }, { 0x4000009f, "HV_X64_MSR_SINT15" },
	{ 0x400000b0, "HV_X64_MSR_STIMER0_CONFIG" }, { 0x400000b1, "HV_X64_MSR_STIMER0_COUNT" },
	{ 0x400000b2, "HV_X64_MSR_STIMER1_CONFIG" }, { 0x400000b3, "HV_X64_MSR_STIMER1_COUNT" },
	{ 0x400000b4, "HV_X64_MSR_STIMER2_CONFIG" }, { 0x400000b5, "HV_X64_MSR_STIMER2_COUNT" },
	{ 0x400000b6, "HV_X64_MSR_STIMER3_CONFIG" }, { 0x400000b7, "HV_X64_MSR_STIMER3_COUNT" },
	{ 0x40000100, "HV_X64_MSR_CRASH_P0" }, { 0x40000101, "HV_X64_MSR_CRASH_P1" },
	{ 0x40000102, "HV_X64_MSR_CRASH_P2" }, { 0x40000103, "HV_X64_MSR_CRASH_P3" },
	{ 0x40000104, "HV_X64_MSR_CRASH_P4" }, { 0x40000105, "HV_X64_MSR_CRASH_CTL" },
	{ 0x40000106, "HV_X64_MSR_REENLIGHTENMENT_CONTROL" },
	{ 0x40000107, "HV_X64_MSR_TSC_EMULATION_CONTROL" },
	{ 0x40000108, "HV_X64_MSR_TSC_EMULATION_STATUS" },
	{ 0x40000118, "HV_X64_MSR_TSC_INVARIANT_CONTROL" },
};

const char *hyperv_call_name(uint32_t code)
{
	return exit_entry_name(calls, ARRAY_SIZE(calls), code);
}

const char *hyperv_msr_name(uint32_t msr)
{
	return exit_entry_name(msrs, ARRAY_SIZE(msrs), msr);
}
