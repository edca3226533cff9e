import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.LongUnaryOperator;

/** Measures the CPU time of its own methods, in two threads, and prints each one's share. */
public class Methods {
    static final String[] NAMES = {"loops", "recursion", "lambdas", "exceptions", "sorting"};
    static final AtomicLongArray cpuNs = new AtomicLongArray(NAMES.length);
    static final AtomicBoolean begun = new AtomicBoolean();
    static volatile long sink;

    static long loops(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) {
            sum += (sum ^ i) * 31;
        }
        return sum;
    }

    static long recursion(int n) {
        return n < 2 ? n : recursion(n - 1) + recursion(n - 2);
    }

    static long applied(LongUnaryOperator function, int n) {
        long value = 1;
        for (int i = 0; i < n; i++) {
            value = function.applyAsLong(value + i);
        }
        return value;
    }

    static long lambdas(int n) {
        return applied(x -> x * 7 % 1000003, n) + applied(x -> x ^ x >>> 3, n);
    }

    static int thrower(int depth) {
        if (depth == 0) {
            throw new IllegalStateException("expected");
        }
        return thrower(depth - 1) + 1;
    }

    static long exceptions(int n) {
        long caught = 0;
        for (int i = 0; i < n; i++) {
            try {
                caught += thrower(10);
            } catch (IllegalStateException e) {
                caught += e.getMessage().length();
            }
        }
        return caught;
    }

    static long sorting(int n) {
        Integer[] all = new Integer[n];
        for (int i = 0; i < n; i++) {
            all[i] = (i * 7919) % n;
        }
        Arrays.sort(all, (x, y) -> y - x);
        return all[0];
    }

    static long call(int which) {
        switch (which) {
            case 0: return loops(2_000_000);
            case 1: return recursion(24);
            case 2: return lambdas(300_000);
            case 3: return exceptions(300);
            default: return sorting(5_000);
        }
    }

    static void run(long cpuTimeNs) {
        ThreadMXBean bean = ManagementFactory.getThreadMXBean();
        while (bean.getCurrentThreadCpuTime() < cpuTimeNs) {
            for (int which = 0; which < NAMES.length; which++) {
                long before = bean.getCurrentThreadCpuTime();
                sink += call(which);
                cpuNs.addAndGet(which, bean.getCurrentThreadCpuTime() - before);
            }
            if (!begun.getAndSet(true)) {
                System.out.println("begun 0");
                System.out.flush();
            }
        }
    }

    public static void main(String[] words) throws InterruptedException {
        long cpuTimeNs = (long) (Double.parseDouble(words[0]) * 1e9);
        Thread other = new Thread(() -> run(cpuTimeNs), "other");
        other.start();
        run(cpuTimeNs);
        other.join();
        long all = 0;
        for (int which = 0; which < NAMES.length; which++) {
            all += cpuNs.get(which);
        }
        for (int which = 0; which < NAMES.length; which++) {
            System.out.printf("%s %.4f%n", NAMES[which], (double) cpuNs.get(which) / all);
        }
    }
}
