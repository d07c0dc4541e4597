;;; What there is to be seen in eglot; the script has been profiled before.  -*- lexical-binding: t -*-

(require 'eglot)
(require 'flymake)

(defun drive-eglot ()
  (run-hooks 'post-command-hook)
  (drive-wait "the server" 30 (lambda () (eglot-current-server)))
  (let ((before (drive-text)) hover)
    (flymake-start)
    (drive-wait "a finding" 60
                (lambda ()
                  (cl-some (lambda (one)
                             (when (string-match-p "SKY301\\|fused" (flymake-diagnostic-text one))
                               (drive-saw 'finding
                                          `((line . ,(1- (line-number-at-pos (flymake-diagnostic-beg one))))
                                            (message . ,(flymake-diagnostic-text one))))
                               t))
                           (flymake-diagnostics))))
    (drive-line "loss.backward()")
    (eglot-hover-eldoc-function (lambda (words &rest _) (setq hover words)))
    (drive-saw 'hover (drive-wait "a hover" 20 (lambda () (and hover (substring-no-properties hover)))))
    (drive-line "optimizer = torch.optim.Adam")
    (undo-boundary)
    (eglot-code-actions (point) (point) "quickfix" t)
    (drive-wait "the change" 20 (lambda () (not (equal (drive-text) before))))
    (drive-saw 'changed (drive-text))
    (drive-undo before)))

(drive #'drive-eglot)
