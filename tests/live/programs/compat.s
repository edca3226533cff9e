# A 32-bit program that needs no library: spins in two routines until it is killed, calling the
# kernel through the vdso in between.
	.text
	.globl _start
_start:
	movl	(%esp), %ecx
	leal	8(%esp,%ecx,4), %esi	# the environment, then the auxiliary vector
1:	lodsl
	testl	%eax, %eax
	jnz	1b
2:	lodsl				# AT_SYSINFO (32): where the vdso enters the kernel
	movl	(%esi), %edi
	addl	$4, %esi
	cmpl	$32, %eax
	jne	2b
3:	call	first_spins
	call	second_spins
	movl	$20000, %ebp
4:	movl	$20, %eax		# getpid
	call	*%edi
	decl	%ebp
	jnz	4b
	jmp	3b
	.size	_start, . - _start

	.globl	first_spins
	.type	first_spins, @function
first_spins:
	movl	$20000000, %ecx
5:	decl	%ecx
	jnz	5b
	ret
	.size	first_spins, . - first_spins

	.type	second_spins, @function
second_spins:
	movl	$20000000, %ecx
6:	decl	%ecx
	jnz	6b
	ret
	.size	second_spins, . - second_spins
	.section .note.GNU-stack, "", @progbits
